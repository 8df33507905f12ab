"""The charts of a run: how well the models do, whom they are trained for, and those of the clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from turnout.metrics import METRICS
from turnout.workbench.report.page.chart import Axis, Chart, Drawing, Series
from turnout.workbench.report.run.client_charts import attendance_picture, client_weights, served_clients, staleness
from turnout.workbench.report.run.compared import Points, common_metrics, shown_metrics, styles_of
from turnout.workbench.report.run.curves import learning_curves
from turnout.workbench.report.run.error_split import ErrorSplit
from turnout.workbench.report.run.groups import attention

CURVE = "curve-"  # before the name of a metric: its learning curves
ERROR_PARTS = {"total": "model to optimum", "optimisation": "optimisation error", "bias": "bias"}  # of an error


def curve_charts(points: Points) -> dict[str, Chart]:
    """Learning curves by name: those of the telling metrics, and of the losses that do not fit the table."""
    names = common_metrics(points)
    listed = (metric for metric in METRICS if metric.in_report and metric.name in names)
    drawn = dict.fromkeys([*shown_metrics(points), *listed])
    return {f"{CURVE}{metric.name}": learning_curves(points, metric) for metric in drawn}


def fleet_charts(points: Points) -> dict[str, Drawing]:
    """The charts of clients and groups by name; those that the runs have nothing for are left out."""
    drawings = {kind: describe(points) for kind, (describe, _) in CHARTS.items()}
    return {kind: drawing for kind, drawing in drawings.items() if drawing is not None}


def weight_by_group(points: Points) -> Chart | None:
    """Share of the weight given to each availability group, beside the share it should have."""
    if any("weight" not in point.history.clients for point in points.points):
        return None
    given = attention(points)
    by_name = {one.group.name: one for one in reversed(given)}  # as the first label that has the group sees it
    order = sorted(reversed(by_name.values()), key=lambda one: one.group.availability)
    series = []
    for label, style in styles_of(points).items():
        own = {one.group.name: (one.share, one.low, one.high) for one in given if one.label == label}
        mean, low, high = np.array([own.get(one.group.name, (np.nan,) * 3) for one in order]).T
        series.append(Series(label, style, mean, None, low, high))
    names, targets = tuple(one.group.name for one in order), np.array([one.target for one in order])
    return groups_chart(names, series, targets, "Whisker: least and most over the seeds.")


def groups_chart(names: tuple[str, ...], series: list[Series], targets: np.ndarray, whiskers: str = "") -> Chart:
    """The chart of every group's share, of a run or of an audit; the last words say what the whiskers are."""
    return Chart(
        "bars",
        "Who the model is trained for",
        Axis("Clients, from the least available to the most", names=names),
        Axis("Share of all weight", "%"),
        tuple(series),
        f"Line across the bars: target share. {whiskers}".strip(),
        targets=targets,
    )


# What a page and `turnout plot` have besides curves, and what a run lacks that has it not.
CHARTS: dict[str, tuple[Callable[[Points], Drawing | None], str]] = {
    "availability": (attendance_picture, "who was there: it was recorded by an older version, or by nobody"),
    "weights": (client_weights, "weights"),
    "groups": (weight_by_group, "weights"),
    "clients": (served_clients, "test_accuracy by client"),
    "staleness": (staleness, "stalest by client"),
}


def split_chart(points: Points, splits: Mapping[str, ErrorSplit]) -> Chart:
    """What is left of the error, part by part."""
    styles, series = styles_of(points), []
    for label, split in splits.items():
        parts = np.array([getattr(split, name) for name in ERROR_PARTS])
        series.append(Series(label, styles[label], parts.mean(axis=1), None, parts.min(axis=1), parts.max(axis=1)))
    return Chart(
        "bars",
        "What is left of the error: optimisation or bias",
        Axis("Distance", names=tuple(ERROR_PARTS.values())),
        Axis("Distance"),
        tuple(series),
        "Distances at the end: from the model to the optimum; from the model to where the weights of the run "
        "lead; from there to the optimum. The first is at most the sum of the others. Chance in the weights fades with "
        "more rounds, a strategy's bias does not.",
    )
