"""Learning curves: means over the seeds, their spread, and the cost of the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from turnout.metrics import Metric
from turnout.records import RECORDS
from turnout.simulator.history import History
from turnout.statistics import evenly
from turnout.workbench.report.page.chart import Axis, Chart, Rule, Series, with_coincidences
from turnout.workbench.report.run.compared import Points, styles_of
from turnout.workbench.report.run.error_split import ErrorSplit

MOST_POINTS = 500  # of a curve; more would not be visible
LEAST_POINTS = 60
IN_ALL = 5000  # points of all curves of a chart together, so that a page of many strategies stays light
COSTS = {record.name: record.title for record in RECORDS if record.cost}
AXES = {"round": "Round"} | COSTS  # what a curve can be drawn over
FLOORS = "Dashed: how far off the weights of this run lead, by themselves."


def learning_curves(points: Points, metric: Metric) -> Chart:
    """A metric over the rounds, or over what they cost, in a band of one standard deviation over the seeds."""
    most = max(LEAST_POINTS, min(MOST_POINTS, IN_ALL // len(points.points)))
    seeds, styles, series = len(points.points[0].history.seeds), styles_of(points), []
    for point in points.points:
        if metric.name in point.history.metrics:
            kept = evenly(len(point.history.evaluated), most)
            values = point.history.metrics[metric.name][:, kept].astype(np.float64)
            mean, *ends = mean_and_band(metric.factor * values, metric.log)
            over = {name: cost[kept] for name, cost in costs(point.history).items()}
            series.append(Series(point.label, styles[point.label], mean, None, *(ends if seeds > 1 else ()), over=over))
    log = metric.log and all((one.y[np.isfinite(one.y)] > 0).all() for one in series)
    choices = {name: title for name, title in AXES.items() if any(name in curve.over for curve in series)}
    x, y = Axis(AXES["round"], choices=choices), Axis(metric.title, "%" if metric.percent else "", log)
    return with_coincidences(Chart("lines", metric.title, x, y, tuple(series), spread_note(seeds) or "One seed."))


def spread_note(seeds: int) -> str:
    """What line and band are; empty for a single seed, which has no band."""
    return f"Line: mean over {seeds} seeds. Band: one standard deviation." if seeds > 1 else ""


def with_floors(chart: Chart, splits: Mapping[str, ErrorSplit]) -> Chart:
    """The chart of the distance to the optimum with the bias of each run, where its error was split."""
    styles = {series.label: series.style for series in chart.series}
    floors = tuple(Rule(float(split.bias.mean()), label, styles[label]) for label, split in splits.items())
    return replace(chart, rules=floors, note=f"{chart.note} {FLOORS}") if floors else chart


def mean_and_band(values: np.ndarray, log: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the first axis, and one standard deviation below and above it; on a logarithm, at least a tenth."""
    mean, spread = mean_and_spread(values)
    return mean, np.maximum(mean - spread, mean / 10) if log else mean - spread, mean + spread


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the finite values over the first axis; no spread for a single value."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    safe = np.where(finite, values, 0.0)
    mean = np.where(count > 0, safe.sum(axis=0) / np.maximum(count, 1), np.nan)
    squares = np.where(finite, (safe - mean) ** 2, 0.0).sum(axis=0)
    return mean, np.sqrt(squares / np.maximum(count - 1, 1))


def costs(history: History) -> dict[str, np.ndarray]:
    """Costs up to each evaluation, mean over the seeds."""
    spent = {"round": history.evaluated.astype(np.float64)}
    for name in COSTS:
        if name in history.records:
            per_round = np.nan_to_num(history.records[name]).mean(axis=0)
            spent[name] = np.concatenate([[0.0], per_round.cumsum()])[history.evaluated]
    if "seconds" not in spent and history.seconds is not None:
        spent["seconds"] = history.seconds * history.evaluated / history.rounds
    return spent
