"""Measures: one number per seed from the curves of a strategy in a panel. Arguments are the keys of its table."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turnout.errors import nearest
from turnout.files.manifest import read_contents
from turnout.metrics import metric_named, record_named
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.signatures import function_and_arguments

CURVES = "curves.csv.gz"  # name of the table in a folder
COLUMNS = ("panel", "label", "metric", "seed", "x", "value")
Values = np.ndarray  # one number per seed


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one strategy in one panel: over the rounds, the clients, or whatever x is."""

    panel: str
    label: str
    metric: str
    x: np.ndarray
    seeds: tuple[int, ...]
    values: np.ndarray  # (seed, x)

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.seeds), len(self.x)):
            expected = (len(self.seeds), len(self.x))
            raise ValueError(f"{self.label} {self.metric}: values must be of shape {expected}, not {self.values.shape}")


@dataclass(frozen=True)
class Measured:
    """All curves of a reproduction, by panel, label and metric."""

    curves: Sequence[Curve]

    @property
    def panels(self) -> list[str]:
        return list(dict.fromkeys(curve.panel for curve in self.curves))

    def labels(self, panel: str) -> list[str]:
        return list(dict.fromkeys(curve.label for curve in self.curves if curve.panel == panel))

    def curve(self, panel: str, label: str, metric: str) -> Curve:
        """The curve of a metric, or an error that names the existing ones."""
        for curve in self.curves:
            if (curve.panel, curve.label, curve.metric) == (panel, label, metric):
                return curve
        if label not in (labels := self.labels(panel)):
            raise ExperimentError(f"no strategy is called {label!r} in panel {panel!r}: {nearest(label, labels)}")
        metrics = {curve.metric for curve in self.curves if (curve.panel, curve.label) == (panel, label)}
        raise ExperimentError(f"{label}: {metric!r} was not taken: {nearest(metric, metrics)}")


def write_curves(curves: Iterable[Curve], path: Path) -> None:
    """One row per value, with the digits of a single-precision number, compressed by gzip."""
    # No time of writing inside, so that equal curves are equal files.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        file = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for curve in curves:
            marks = (curve.panel, curve.label, curve.metric)
            xs = [f"{x:.9g}" for x in curve.x.tolist()]
            for seed, values in zip(curve.seeds, curve.values.tolist(), strict=True):
                writer.writerows((*marks, seed, x, f"{value:.7g}") for x, value in zip(xs, values, strict=True))
        file.flush()
        file.detach()


def read_curves(path: Path) -> list[Curve]:
    """The curves of a table, in its order, checked by the manifest of its folder if there is one."""
    contents = read_contents(path.parent, (path.name,))
    if path.name not in contents:
        raise ExperimentError(f"{path}: there is no such table of curves")
    return parse_curves(contents[path.name], str(path))


def parse_curves(content: bytes, name: str) -> list[Curve]:
    """The curves of a table, in its order; the name is for the error."""
    by_curve: dict[tuple[str, str, str], dict[int, tuple[list[float], list[float]]]] = {}
    curves = []
    try:
        with gzip.open(io.BytesIO(content), "rt", newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) != COLUMNS:
                raise ValueError(f"its first line must be {','.join(COLUMNS)}")
            for panel, label, metric, seed, x, value in rows:
                xs, values = by_curve.setdefault((panel, label, metric), {}).setdefault(int(seed), ([], []))
                xs.append(float(x))
                values.append(float(value))
        for marks, by_seed in by_curve.items():
            (xs, *_), values = zip(*by_seed.values(), strict=True)
            curves.append(Curve(*marks, np.asarray(xs), tuple(by_seed), np.asarray(values)))
    except (OSError, EOFError, zlib.error, ValueError, LookupError, csv.Error) as error:
        raise ExperimentError(f"{name}: not a table of curves, or damaged: {error}") from error
    return curves


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
    return np.diff(entry[metric].values, axis=1).max(axis=1)


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
    return np.polyfit(np.log(curve.x), np.log(curve.values).T, 1)[0]


def time_average(entry: StrategyCurves, metric: str) -> Values:
    """Mean over all evaluations but that of the untrained model."""
    curve = entry[metric]
    return curve.values[:, curve.x > 0].mean(axis=1)


def late_deviation(entry: StrategyCurves, metric: str, share: float = 0.5) -> Values:
    """Standard deviation over the last share of the evaluations."""
    values = entry[metric].values
    return values[:, -max(2, round(share * values.shape[1])) :].std(axis=1, ddof=1)


def rounds_to(entry: StrategyCurves, metric: str, target: float, average: int = 1) -> Values:
    """First x at which a metric reaches the target, infinite if it never does.

    `average` smooths by the mean of so many evaluations in a row first.
    """
    curve = entry[metric]
    values = np.lib.stride_tricks.sliding_window_view(curve.values, average, axis=1).mean(axis=-1)
    reached = values >= target if metric_named(metric).higher_is_better else values <= target
    first = np.argmax(reached, axis=1)
    return np.where(reached.any(axis=1), curve.x[average - 1 :][first], np.inf)


def cost_to(entry: StrategyCurves, metric: str, target: float, cost: str = "local_steps", average: int = 1) -> Values:
    """Cost until the target is reached, infinite if it never is; the claim must list the cost."""
    spent = entry[cost]
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
    members = (pi[0] <= rates) & (rates <= pi[1]) & (lam[0] <= correlations) & (correlations <= lam[1])
    return np.where(members, entry[name].values, 0).sum(axis=1)


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
