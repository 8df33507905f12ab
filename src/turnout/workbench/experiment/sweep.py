"""The points of an experiment: every strategy at every combination of the swept arguments."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.experiment_file import COMMON_TABLES, NAMED, Entrant, Experiment, Tables
from turnout.workbench.experiment.parts import Part, Path


@dataclass(frozen=True)
class Point(Tables):
    """One simulation of an experiment, with one value for each swept argument."""

    label: str
    entrant: str  # the label without settings
    settings: dict[str, Any]  # the swept keys and their values here
    strategy: Part

    def of_run(self, seed: int) -> Point:
        """The point as the run with this seed has it."""
        return replace(self, **{role: getattr(self, role).of_run(seed) for role in COMMON_TABLES})


def points(experiment: Experiment) -> tuple[Point, ...]:
    """All points, strategy by strategy, in the order of the file."""
    grid = tuple(point for entrant in experiment.strategies for point in _points_of(experiment, entrant))
    labels = [point.label for point in grid]
    for label in labels:
        if labels.count(label) > 1:
            raise ExperimentError(f"strategies: two runs would be called {label!r}: give a label, or other values")
    return grid


def _points_of(experiment: Experiment, entrant: Entrant) -> list[Point]:
    parts = {"strategy": entrant.strategy, **{role: _shared(experiment, entrant, role) for role in COMMON_TABLES}}
    axes = [(role, path, values) for role, part in parts.items() for path, values in part.axes()]
    keys = [(role, path) for role, path, _ in axes]
    grid = itertools.product(*(values for _, _, values in axes))
    return [_point(entrant.label, parts, dict(zip(keys, chosen, strict=True))) for chosen in grid]


def _shared(experiment: Experiment, entrant: Entrant, role: str) -> Part:
    """A table of the experiment, with the strategy's own version on top."""
    base: Part = getattr(experiment, role)
    own: Part | None = getattr(entrant, role, None)
    if own is None:
        return base
    return own if role in NAMED else own.over(base)


def _point(label: str, parts: dict[str, Part], chosen: dict[tuple[str, Path], Any]) -> Point:
    fixed = {
        role: part.at({path: value for (owner, path), value in chosen.items() if owner == role})
        for role, part in parts.items()
    }
    settings = {".".join((role, *path)): value for (role, path), value in chosen.items()}
    return Point(label=point_label(label, settings), entrant=label, settings=settings, **fixed)


def point_label(entrant: str, settings: dict[str, Any]) -> str:
    """A strategy's label with the settings that are its own: `fedavg cohort=10`."""
    return " ".join(
        [entrant, *(f"{_short(key, list(settings))}={_value_text(value)}" for key, value in settings.items())]
    )


def _short(key: str, keys: list[str]) -> str:
    """The last word of a dotted key, if no other key ends with it."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", value))
    return f"{value:g}" if isinstance(value, float) else str(value)
