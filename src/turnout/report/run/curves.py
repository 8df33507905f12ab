"""Learning curves as numbers: means over the seeds, their spread, and what a round costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.experiment.run import Outcome
from turnout.metrics import RECORDS, Metric
from turnout.report.run.compared import Points
from turnout.simulator.history import History
from turnout.statistics import evenly

MOST_POINTS = 500  # of a curve; more would not be told apart
LEAST_POINTS = 60
IN_ALL = 5000  # points of all curves of a chart together, so that a page of many strategies stays light
COSTS = {record.name: record.title for record in RECORDS if record.cost}
AXES = {"round": "Round"} | COSTS  # what a curve can be drawn over


@dataclass(frozen=True)
class LearningCurve:
    """One metric of one outcome, in the unit that is shown."""

    label: str
    strategy: str
    over: dict[str, np.ndarray]  # by axis, where it is known
    mean: np.ndarray  # over the seeds whose value is finite, NaN if none is
    low: np.ndarray  # one standard deviation below
    high: np.ndarray


def learning_curves_of(points: Points, metric: Metric) -> list[LearningCurve]:
    """A curve an outcome that has the metric."""
    most = max(LEAST_POINTS, min(MOST_POINTS, IN_ALL // len(points.points)))
    return [_curve(point, metric, most) for point in points.points if metric.name in point.history.metrics]


def _curve(point: Outcome, metric: Metric, most: int) -> LearningCurve:
    history = point.history
    count = len(history.evaluated)
    kept = evenly(count, most)
    values = metric.factor * history.metrics[metric.name][:, kept].astype(np.float64)
    mean, spread = mean_and_spread(values)
    low = mean - spread
    if metric.log:
        low = np.maximum(low, mean / 10)
    over = {name: cost[kept] for name, cost in costs(history).items()}
    return LearningCurve(point.label, point.strategy, over, mean, low, mean + spread)


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over the first axis, of what is finite; no spread where there is one value only."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    safe = np.where(known, values, 0.0)
    mean = np.where(count > 0, safe.sum(axis=0) / np.maximum(count, 1), np.nan)
    squares = np.where(known, (safe - mean) ** 2, 0.0).sum(axis=0)
    return mean, np.sqrt(squares / np.maximum(count - 1, 1))


def costs(history: History) -> dict[str, np.ndarray]:
    """What was spent before each evaluation, mean over the seeds."""
    found = {"round": history.evaluated.astype(np.float64)}
    for name in COSTS:
        if name in history.records:
            spent = np.nan_to_num(history.records[name]).mean(axis=0).cumsum()
            found[name] = np.concatenate([[0.0], spent])[history.evaluated]
    if "seconds" not in found and history.seconds is not None:
        found["seconds"] = history.seconds * history.evaluated / history.rounds
    return found
