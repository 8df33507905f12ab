"""The curves of a reproduction: one metric of one strategy in one panel, and the table in which they are stored."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from turnout.errors import nearest
from turnout.files.manifest import read_contents
from turnout.workbench.experiment.errors import ExperimentError

CURVES = "curves.csv.gz"  # name of the table in a folder
COLUMNS = ("panel", "label", "metric", "seed", "x", "value")


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
        if self.values.size == 0:
            raise ValueError(f"{self.label} {self.metric}: a curve must have a value")
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

    def num_seeds(self, panel: str) -> int:
        """How many seeds its strategies have; what has one alone, such as a formula, goes with all."""
        own = [curve for curve in self.curves if curve.panel == panel] or self.curves  # checks may name other panels
        by_seeds = {curve.seeds: curve.label for curve in own if len(curve.seeds) > 1 and curve.panel == panel}
        if len(by_seeds) > 1:
            words = [f"{label} has {', '.join(map(str, seeds[:5]))}" for seeds, label in by_seeds.items()]
            raise ExperimentError(f"panel {panel!r}: the seeds must be the same for all, but {' and '.join(words[:2])}")
        if not own:
            raise ExperimentError(f"panel {panel!r} has no curves")
        return max(len(curve.seeds) for curve in own)

    def labels(self, panel: str) -> list[str]:
        return list(dict.fromkeys(curve.label for curve in self.curves if curve.panel == panel))

    def row(self, panel: str, of: Sequence[str] | None = None) -> list[str]:
        """These strategies, or all, in an order."""
        if len(row := list(of or self.labels(panel))) < 2:
            raise ExperimentError(f"panel {panel!r} has {len(row)} strategies, and an order needs two or more")
        return row

    def rivals(self, panel: str, label: str, of: Sequence[str] | None = None) -> list[str]:
        """The strategies, of these or of all, that one is compared with."""
        labels = self.labels(panel)
        if of is None and label not in labels:
            raise ExperimentError(f"no strategy is called {label!r} in panel {panel!r}: {nearest(label, labels)}")
        others = [other for other in (of or labels) if other != label]
        if not others:
            raise ExperimentError(f"panel {panel!r} has no strategy to compare {label} with")
        return others

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
        if not by_curve:
            raise ValueError("it has no rows")
        for marks, by_seed in by_curve.items():
            (xs, *others), values = zip(*by_seed.values(), strict=True)
            if any(other != xs for other in others):
                raise ValueError(f"the seeds of {' '.join(filter(None, marks))} must have the same x")
            curves.append(Curve(*marks, np.asarray(xs), tuple(by_seed), np.asarray(values)))
    except (OSError, EOFError, zlib.error, ValueError, LookupError, csv.Error) as error:
        raise ExperimentError(f"{name}: not a table of curves, or damaged: {error}") from error
    return curves
