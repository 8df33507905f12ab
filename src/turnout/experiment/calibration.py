"""The key `calibrate` of an experiment: all strategies get the mean step length of a chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnout.auditor import calibrate
from turnout.experiment.build import Batch
from turnout.experiment.errors import ExperimentError, mistakes_at
from turnout.experiment.sweep import Point


def calibrated(batch: Batch, reference: str, rounds: int) -> Batch:
    """The batch with calibrated local learning rates, and their factors: means, where every seed has its own."""
    chosen = [_reference(point, batch.points, reference) for point in batch.points]
    setups, factors = [], []
    for setup in batch.setups:
        with mistakes_at("calibrate"):
            moves = calibrate.mean_moves(setup.task.fleet, setup.trials, rounds=rounds)
        factors.append([float(moves[index] / move) for index, move in zip(chosen, moves, strict=True)])
        trials = tuple(calibrate.scaled(trial, factor) for trial, factor in zip(setup.trials, factors[-1], strict=True))
        setups.append(replace(setup, trials=trials))
    means = tuple(sum(of_point) / len(of_point) for of_point in zip(*factors, strict=True))
    return replace(batch, setups=tuple(setups), rate_factors=means)


def _reference(point: Point, points: Sequence[Point], reference: str) -> int:
    """Index of the first point of the chosen strategy that agrees with this one in all keys that both sweep."""
    for index, other in enumerate(points):
        shared = [key for key in point.settings if key in other.settings and not key.startswith("strategy.")]
        if other.entrant == reference and all(point.settings[key] == other.settings[key] for key in shared):
            return index
    raise ExperimentError(f"calibrate: {reference!r} has no run to compare {point.label!r} with")
