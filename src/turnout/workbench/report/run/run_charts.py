"""The charts of a run: how well the models do, and the clients: who was there, who counts, who is served, who waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from turnout.metrics import METRICS, TEST_ACCURACY, metric_named
from turnout.simulator.attendance import STATES, Attendance
from turnout.statistics import evenly
from turnout.workbench.experiment.run import Outcome
from turnout.workbench.report.page.chart import (
    Axis,
    Cells,
    Chart,
    Drawing,
    More,
    Picture,
    Rule,
    Series,
    with_coincidences,
)
from turnout.workbench.report.page.colours import BLUE, ORANGE, SKY, VERMILION, Style
from turnout.workbench.report.run.compared import (
    Points,
    attention,
    availability_of,
    common_metrics,
    groups_of,
    shown_metrics,
    styles_of,
    weight_shares,
)
from turnout.workbench.report.run.curves import ErrorSplit, learning_curves
from turnout.workbench.report.run.in_time import ages, any_timed, at_work, unit

MOST_PICTURES = 20  # strategies whose attendance is shown; in a page each takes up to 40 kB
MOST_CLIENTS, LEAST_CLIENTS = 400, 50  # shown per strategy; more would cover each other
IN_ALL = 4000  # dots of all strategies together
MOST_SHARES = 200  # of all clients, at which a sorted curve is drawn
LEAST_TOP, MOST_TOP = 2.0, 20.0  # of an axis of weights over targets
LEAST_FIRST = Axis("Clients, least available first", "%", domain=(0.0, 100.0))
AWAY = Style("#ECEEF1", "#2A2E35")
STATE_STYLES: dict[str, Style] = dict(zip(STATES, (AWAY, *map(Style.of, (ORANGE, VERMILION, BLUE, SKY))), strict=True))
UNTIMED = len(STATES) - 1  # states of runs in which work takes no time

CURVE = "curve-"  # before the name of a metric: its learning curves
ERROR_PARTS = {"total": "model to optimum", "optimisation": "optimisation error", "bias": "bias"}  # of an error


def attendance_picture(points: Points) -> Picture | None:
    """Who was there, asked and heard, strategy by strategy."""
    shown = [point.one_world for point in points.points[:MOST_PICTURES]]
    watched = [(point, point.history.attendance) for point in shown if point.history.attendance is not None]
    if not watched:
        return None
    cells, groups = zip(*(_describe_attendance(point, attendance) for point, attendance in watched), strict=True)
    note = f"One row per client, one column per {unit(points)}, seed {watched[0][1].seed}. From the top: {groups[0]}."
    if len(points.points) > MOST_PICTURES:
        note += f" The first {MOST_PICTURES} strategies."
    x, y, num_clients = (
        Axis(unit(points).capitalize(), whole=True),
        Axis("Clients", whole=True),
        points.points[0].target.shape[-1],
    )
    states = dict(list(STATE_STYLES.items())[: len(STATES) if any_timed(points) else UNTIMED])
    return Picture("Who was there, who was asked, who was heard", x, y, cells, states, num_clients, note)


def _describe_attendance(outcome: Outcome, attendance: Attendance) -> tuple[Cells, str]:
    """An attendance with its clients from the least available to the most, and the groups that they form."""
    place = np.full(outcome.target.shape[0], -1)
    place[attendance.clients] = np.arange(len(attendance.clients))
    order = _by_availability(outcome)
    order = order[place[order] >= 0]
    pi, lam = availability_of(outcome)[order], None if outcome.history.lam is None else outcome.history.lam[order]
    edges = np.flatnonzero(np.diff(_group_of_each(pi, lam))) + 1
    more = (More("available", 100 * pi, "%"), *([] if lam is None else [More("correlation λ", lam)]))
    states, names = attendance.states.T[place[order]], _names(outcome, order)
    cells = Cells(outcome.label, names, attendance.rounds, states, tuple(edges.tolist()), more)
    return cells, ", then ".join(group.name for group in groups_of(pi, lam))


def client_weights(points: Points) -> Chart | None:
    """Weight over target of each client, from the least available to the most."""
    most = max(LEAST_CLIENTS, min(MOST_CLIENTS, IN_ALL // len(points.points)))
    styles, series = styles_of(points), []
    for point in (each.one_world for each in points.points):
        if "weight" in point.history.clients:
            order = _by_availability(point)
            order = order[point.target[order] > 0]
            chosen = order[evenly(len(order), most)]
            names, target = _names(point, chosen), point.target[chosen]
            ratio = weight_shares(point.history.clients["weight"])[:, chosen] / target
            ends = (ratio.min(axis=0), ratio.max(axis=0)) if len(point.history.seeds) > 1 else (None, None)
            places, available = np.linspace(0, 100, len(chosen) + 1)[1:], availability_of(point)[chosen]
            drawn = Series(point.label, styles[point.label], ratio.mean(axis=0), places, *ends)
            described = about_clients(drawn, names, available, target)
            series.append(replace(described, more=(*described.more, *_interval(point, chosen))))
    return weights_chart(series, LEAST_FIRST, "Bars: least and most over the seeds.") if series else None


def about_clients(series: Series, names: Sequence[str], available: np.ndarray, target: np.ndarray) -> Series:
    """A series of one point per client, with name, availability and target of each."""
    more = More("available", 100 * available, "%"), More("target", 100 * target, "%")
    return replace(series, names=tuple(f"client {name}" for name in names), more=more)


def _interval(outcome: Outcome, clients: np.ndarray) -> tuple[More, ...]:
    """The ends of the interval of each client's availability, where it was estimated."""
    ends = {"available at least": "pi_low", "available at most": "pi_high"}
    estimated = {title: outcome.history.clients.get(name) for title, name in ends.items()}
    return tuple(
        More(title, 100 * values[0, clients], "%") for title, values in estimated.items() if values is not None
    )


def weights_chart(series: Sequence[Series], x: Axis, whiskers: str) -> Chart:
    """The chart of every client's weight, of a run or of an audit; `whiskers` explains the whiskers."""
    top = max(np.nanmax(line.y, initial=1.0) for line in series)
    return Chart(
        "dots",
        "Weight of each client, over its target",
        x,
        Axis("Weight ÷ target", zero=True, domain=(0.0, 1.05 * float(np.clip(top, LEAST_TOP, MOST_TOP)))),
        tuple(series),
        f"At 1, the dashed line, a client counts as it should. {whiskers}",
        (Rule(1.0),),
    )


def served_clients(points: Points) -> Chart | None:
    """Test accuracy on each client, from the worst served to the best."""
    metric = metric_named(TEST_ACCURACY)
    x, y = Axis("Clients, worst first", "%"), Axis("Test accuracy", "%")
    note = "Test accuracy of the final model on each client. The left tenth is the worst decile."
    return _ascending(points, metric.name, "From the worst served client to the best", x, y, note, metric.factor)


def staleness(points: Points) -> Chart | None:
    """Longest wait of each client for an upload to arrive, from the shortest to the longest."""
    x, y = Axis("Clients, freshest first", "%"), Axis(f"Longest wait in {unit(points)}s", zero=True)
    note = "Longest time without an upload of each client, mean over the seeds."
    return _ascending(points, "stalest", "How long clients were not heard", x, y, note)


def _ascending(points: Points, name: str, title: str, x: Axis, y: Axis, note: str, factor: float = 1.0) -> Chart | None:
    """A number per client, mean over the seeds, in ascending order, for the strategies that have it."""
    styles, series = styles_of(points), []
    for point in (each.one_world for each in points.points):
        if name in point.history.clients:
            means = point.history.clients[name].astype(np.float64).mean(axis=0)
            finite = means[np.isfinite(means)]
            if finite.size:
                shares = np.linspace(0, 1, min(MOST_SHARES, max(2, finite.size)))
                values = factor * np.quantile(finite, shares)
                series.append(Series(point.label, styles[point.label], values, 100 * shares))
    return with_coincidences(Chart("lines", title, x, y, tuple(series), note)) if series else None


def _names(outcome: Outcome, clients: np.ndarray) -> tuple[str, ...]:
    """Names of these clients, or their numbers if they have none."""
    return tuple(str(k) if outcome.names is None else outcome.names[k] for k in clients.tolist())


def _by_availability(outcome: Outcome) -> np.ndarray:
    """Clients group by group, from the least available to the most, and within a group by π and λ."""
    pi = availability_of(outcome)
    lam = np.zeros_like(pi) if outcome.history.lam is None else outcome.history.lam
    return np.lexsort((lam, pi, _group_of_each(pi, outcome.history.lam)))


def _group_of_each(pi: np.ndarray, lam: np.ndarray | None) -> np.ndarray:
    """The number of each client's group."""
    number = np.zeros(len(pi), int)
    for place, group in enumerate(groups_of(pi, lam)):
        number[group.members] = place
    return number


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
    "at_work": (at_work, "who was at work: work took no time"),
    "ages": (ages, "ages of updates: work took no time"),
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
