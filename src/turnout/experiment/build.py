"""From points to objects: every task once, every world once, and one trial per point, calibrated if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnout.auditor import calibrate
from turnout.experiment.errors import ExperimentError, mistakes_at
from turnout.experiment.sweep import Point
from turnout.simulator.trial import Trial, check_trial
from turnout.tasks.base import Task
from turnout.world import World


@dataclass(frozen=True)
class Batch:
    """The points that share a task, ready to be simulated together."""

    task: Task
    points: tuple[Point, ...]
    trials: tuple[Trial, ...]
    rate_factors: tuple[float, ...] | None = None  # calibration factors of the local learning rates


def build(points: Sequence[Point]) -> tuple[Batch, ...]:
    """All objects of an experiment, in batches by task; mistakes that only show here name their place, too."""
    by_task: dict[str, list[Point]] = {}
    for point in points:
        by_task.setdefault(point.task.key, []).append(point)
    return tuple(_batch(members) for members in by_task.values())


def _batch(points: list[Point]) -> Batch:
    task = points[0].task.build()
    if not isinstance(task, Task):
        raise ExperimentError(f"task: {points[0].task.name!r} builds a {type(task).__name__}, not a Task")
    worlds: dict[str, World] = {}
    return Batch(task, tuple(points), tuple(_trial(task, point, worlds) for point in points))


def _trial(task: Task, point: Point, worlds: dict[str, World]) -> Trial:
    local = point.local.build()
    key = "".join((point.availability.key, point.links.key, point.compute.key, str(local.batch_size)))
    if key not in worlds:
        worlds[key] = _world(task, point, local.batch_size)
    trial = Trial(
        strategy=point.strategy.build(num_clients=task.num_clients),
        world=worlds[key],
        local=local,
        settings=point.server.build(facts=point.facts.build()),
        uploads=point.uploads.build(),
    )
    with mistakes_at(point.strategy.where, type(trial.strategy).__module__):
        check_trial(task, trial)
    return trial


def _world(task: Task, point: Point, batch_size: int) -> World:
    filled: dict[str, Any] = {"num_clients": task.num_clients, "sizes": task.sizes, "batch_size": batch_size}
    availability = point.availability.build(num_clients=task.num_clients)
    if availability.num_clients != task.num_clients:
        raise ExperimentError(
            f"availability: describes {availability.num_clients} clients, but the task has {task.num_clients}"
        )
    with mistakes_at("availability, links, compute"):
        return World(availability, point.links.build(num_clients=task.num_clients), point.compute.build(**filled))


def calibrated(batch: Batch, reference: str, rounds: int) -> Batch:
    """The key `calibrate`: all strategies get the mean step length of the chosen one, by their local learning rates."""
    chosen = [_reference(point, batch.points, reference) for point in batch.points]
    with mistakes_at("calibrate"):
        moves = calibrate.mean_moves(batch.task.fleet, batch.trials, rounds=rounds)
    factors = tuple(float(moves[index] / move) for index, move in zip(chosen, moves, strict=True))
    trials = tuple(calibrate.scaled(trial, factor) for trial, factor in zip(batch.trials, factors, strict=True))
    return replace(batch, trials=trials, rate_factors=factors)


def _reference(point: Point, points: Sequence[Point], reference: str) -> int:
    """Index of the first point of the chosen strategy that agrees with this one in all keys that both sweep."""
    for index, other in enumerate(points):
        shared = [key for key in point.settings if key in other.settings and not key.startswith("strategy.")]
        if other.entrant == reference and all(point.settings[key] == other.settings[key] for key in shared):
            return index
    raise ExperimentError(f"calibrate: {reference!r} has no run to compare {point.label!r} with")
