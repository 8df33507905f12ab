"""Measures: one number per seed from the curves of a strategy in a panel. Arguments are the keys of its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnout.metrics import metric_named, record_named
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.signatures import function_and_arguments
from turnout.workbench.reproduction.curve_table import Curve, Measured

Values = np.ndarray  # one number per seed


@dataclass(frozen=True)
class StrategyCurves:
    """The curves of one strategy in one panel."""

    measured: Measured
    panel: str
    label: str

    def __getitem__(self, metric: str) -> Curve:
        return self.measured.curve(self.panel, self.label, metric)


def final(entry: StrategyCurves, metric: str, last: int = 1) -> Values:
    """Mean of the last evaluations."""
    return entry[metric].values[:, -last:].mean(axis=1)


def at(entry: StrategyCurves, metric: str, x: float) -> Values:
    """Value at x, the nearest one that was taken."""
    curve = entry[metric]
    return curve.values[:, int(np.argmin(np.abs(curve.x - x)))]


def best(entry: StrategyCurves, metric: str) -> Values:
    """The best value of the curve."""
    values = entry[metric].values
    return values.max(axis=1) if metric_named(metric).higher_is_better else values.min(axis=1)


def largest(entry: StrategyCurves, metric: str) -> Values:
    """The largest value of the curve, whether large is good or bad."""
    return entry[metric].values.max(axis=1)


def largest_rise(entry: StrategyCurves, metric: str) -> Values:
    """The largest step upwards from one value to the next, negative where all steps go down."""
    values = entry[metric].values
    if values.shape[1] < 2:
        raise _unfit(entry[metric], "a step needs two evaluations or more")
    return np.diff(values, axis=1).max(axis=1)


def largest_fall(entry: StrategyCurves, metric: str, last: int = 0) -> Values:
    """How far the metric gets worse from one of the last evaluations to a later one; of all evaluations if 0."""
    values = entry[metric].values[:, -last:]
    losses = -values if metric_named(metric).higher_is_better else values
    return (losses - np.minimum.accumulate(losses, axis=1)).max(axis=1)


def lost_between(entry: StrategyCurves, metric: str, since: float, until: float) -> Values:
    """How much worse the metric is at the end of a spell than at its start, negative where it is better."""
    lost = at(entry, metric, until) - at(entry, metric, since)
    return -lost if metric_named(metric).higher_is_better else lost


def slope(entry: StrategyCurves, metric: str) -> Values:
    """The power of x that the metric follows: the slope of its logarithm over that of x, by least squares."""
    curve = entry[metric]
    if len(curve.x) < 2 or not (np.isfinite(curve.values).all() and (curve.values > 0).all() and (curve.x > 0).all()):
        raise _unfit(curve, "a slope needs two values or more, all above 0")
    return np.polyfit(np.log(curve.x), np.log(curve.values).T, 1)[0]


def time_average(entry: StrategyCurves, metric: str) -> Values:
    """Mean over all evaluations but that of the untrained model."""
    curve = entry[metric]
    if not (curve.x > 0).any():
        raise _unfit(curve, "a mean over time needs an evaluation after the start")
    return curve.values[:, curve.x > 0].mean(axis=1)


def late_deviation(entry: StrategyCurves, metric: str, share: float = 0.5) -> Values:
    """Standard deviation over the last share of the evaluations."""
    values = entry[metric].values
    if values.shape[1] < 2:
        raise _unfit(entry[metric], "a deviation over the rounds needs two evaluations or more")
    return values[:, -max(2, round(share * values.shape[1])) :].std(axis=1, ddof=1)


def rounds_to(entry: StrategyCurves, metric: str, target: float, average: int = 1) -> Values:
    """First x at which a metric reaches the target, infinite if it never does.

    `average` smooths by the mean of so many evaluations in a row first.
    """
    curve = entry[metric]
    if not 1 <= average <= len(curve.x):
        raise _unfit(curve, f"a mean of {average} evaluations in a row needs as many")
    values = np.lib.stride_tricks.sliding_window_view(curve.values, average, axis=1).mean(axis=-1)
    reached = values >= target if metric_named(metric).higher_is_better else values <= target
    first = np.argmax(reached, axis=1)
    return np.where(reached.any(axis=1), curve.x[average - 1 :][first], np.inf)


def cost_to(entry: StrategyCurves, metric: str, target: float, cost: str = "local_steps", average: int = 1) -> Values:
    """Cost until the target is reached, infinite if it never is; the claim must list the cost."""
    spent = entry[cost]
    if spent.seeds != entry[metric].seeds:
        raise _unfit(spent, f"its seeds must be those of {metric}")
    rounds = rounds_to(entry, metric, target, average)
    places = np.searchsorted(spent.x, np.minimum(rounds, spent.x[-1]))
    return np.where(np.isfinite(rounds), spent.values[np.arange(len(places)), places], np.inf)


def weight_share(entry: StrategyCurves, pi: Sequence[float] = (0.0, 1.0), lam: Sequence[float] = (-1.0, 1.0)) -> Values:
    """Share of all weight that the clients of a class got: their π and λ lie in these intervals, ends included."""
    weight = entry["weight"].values
    return _of_members(entry, "weight", pi, lam) / weight.sum(axis=1)


def weight_over_target(
    entry: StrategyCurves, pi: Sequence[float] = (0.0, 1.0), lam: Sequence[float] = (-1.0, 1.0)
) -> Values:
    """A class's share of all weight over its share of the target: 1 is its due."""
    return weight_share(entry, pi, lam) / (_of_members(entry, "target", pi, lam) / entry["target"].values.sum(axis=1))


def asked_share(entry: StrategyCurves, pi: Sequence[float] = (0.0, 1.0), lam: Sequence[float] = (-1.0, 1.0)) -> Values:
    """Share of their available rounds in which the clients of a class were asked; NaN if they never were available."""
    asked, available = (_of_members(entry, name, pi, lam) for name in ("asked", "available"))
    return np.divide(asked, available, out=np.full(asked.shape, np.nan), where=available > 0)


def _of_members(entry: StrategyCurves, name: str, pi: Sequence[float], lam: Sequence[float]) -> Values:
    """Sum over the clients of a class, one per seed; π and λ are those of all seeds, or of each its own."""
    rates, correlations = entry["pi"].values, entry["lam"].values
    for curve in (entry["lam"], entry[name]):
        if curve.values.shape[1] != rates.shape[1] or len({1, len(rates), len(curve.seeds)}) > 2:
            raise _unfit(curve, "clients and seeds must be those of pi")
    members = (pi[0] <= rates) & (rates <= pi[1]) & (lam[0] <= correlations) & (correlations <= lam[1])
    return np.where(members, entry[name].values, 0).sum(axis=1)


def _unfit(curve: Curve, reason: str) -> ExperimentError:
    """What is said of a stored curve that has not what is measured."""
    size = f"{len(curve.seeds)} seeds × {len(curve.x)} values"
    return ExperimentError(f"{' '.join(filter(None, (curve.panel, curve.label, curve.metric)))}: {reason}, not {size}")


MEASURES: dict[str, Callable[..., Values]] = {
    measure.__name__: measure
    for measure in (
        final,
        at,
        best,
        largest,
        largest_rise,
        largest_fall,
        lost_between,
        slope,
        time_average,
        late_deviation,
        rounds_to,
        cost_to,
        weight_share,
        weight_over_target,
        asked_share,
    )
}


def measure_words(measure: dict[str, Any]) -> str:
    """What a table measures, in a few words."""
    name, metric = measure["name"], metric_named(measure.get("metric", "")).words
    if name == "final":
        return metric
    if name == "at":
        return f"{metric} at {measure['x']:g}"
    if name in ("rounds_to", "cost_to"):
        spent = "rounds" if name == "rounds_to" else record_named(measure.get("cost", "local_steps")).title.lower()
        return f"{spent} to {metric} {measure['target']:g}"
    words = name.replace("_", " ")
    return f"{words} of {metric}" if metric else words


def measure_values(
    measured: Measured, measure: dict[str, Any], panel: str, label: str, where: str = "measure"
) -> np.ndarray:
    """One number per seed, by the measure that a table names; "other panel: label" is a label in that panel."""
    function, arguments = function_and_arguments(MEASURES, measure, where, ("entry",))
    other, colon, rest = label.partition(": ")
    if colon and other in measured.panels:
        panel, label = other, rest
    return np.asarray(function(StrategyCurves(measured, panel, label), **arguments), np.float64)
