"""From points to objects: every task once, every world once, and one trial per point; or so for every seed.

An audit plays the worlds and strategies of an experiment in the same way, without its data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnout.auditor import Audit, audit_trials, calibrate
from turnout.auditor.auditing import ROUNDS
from turnout.declarations import NumRounds, checked
from turnout.simulator.mesh import Spread
from turnout.simulator.run_plan import RunPlan
from turnout.simulator.simulate import Seeds, check_metrics
from turnout.simulator.trial import Trial, check_length, check_trial
from turnout.tasks.base import Task
from turnout.workbench.experiment.errors import ExperimentError, mistakes_at
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.sweep import Point, points
from turnout.world import World


@dataclass(frozen=True)
class Setup:
    """A task, and one trial per point on it."""

    task: Task
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Batch:
    """The points that share their data, ready to be simulated together."""

    points: tuple[Point, ...]
    setups: tuple[Setup, ...]  # one for all seeds, or one per seed where data or worlds are drawn by it
    rate_factors: tuple[float, ...] | None = None  # calibration factors of the local learning rates

    @property
    def tasks(self) -> tuple[Task, ...]:
        """One task for all seeds, or one per seed."""
        tasks = tuple(setup.task for setup in self.setups)
        return tasks[:1] if all(task is tasks[0] for task in tasks) else tasks

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the clients, if they have names and all draws of the task have the same."""
        first, *others = (task.names for task in self.tasks)
        return first if all(names == first for names in others) else None


def build(points: Sequence[Point], seeds: Sequence[int] = (0,), spread: Spread = "lanes") -> tuple[Batch, ...]:
    """All objects of an experiment, in batches by task; mistakes that only show here name their place, too.

    Where a seed is that of the run, every seed of `seeds` has a draw of its own.
    """
    batches: dict[tuple[str, tuple[str, ...]], list[Point]] = {}
    for point in points:
        batches.setdefault((point.task.key, point.drawn), []).append(point)
    return tuple(_batch(members, seeds if drawn else seeds[:1], spread) for (_, drawn), members in batches.items())


def _batch(points: list[Point], seeds: Sequence[int], spread: Spread) -> Batch:
    setups: list[Setup] = []
    for seed in seeds:
        drawn = [point.of_run(seed) for point in points]
        task = _task(drawn[0]) if points[0].task.drawn or not setups else setups[0].task
        if setups and task.num_clients != setups[0].task.num_clients:
            counts = f"{setups[0].task.num_clients} and {task.num_clients}"
            raise ExperimentError(f'task: draws by seed = "run" must have equally many clients, not {counts}')
        worlds: dict[str, World] = {}
        trials = [_trial(task, point, worlds, spread) for point in drawn]
        if setups:  # all but the world is the same, and must be: draws run as one program
            trials = [replace(first, world=trial.world) for first, trial in zip(setups[0].trials, trials, strict=True)]
        setups.append(Setup(task, tuple(trials)))
    return Batch(tuple(points), tuple(setups))


def _task(point: Point) -> Task:
    task = point.task.build()
    if not isinstance(task, Task):
        raise ExperimentError(f"task: {point.task.name!r} builds a {type(task).__name__}, not a Task")
    return task


def _trial(task: Task, point: Point, worlds: dict[str, World], spread: Spread) -> Trial:
    local = point.local.build()
    key = "".join(
        (point.availability.key, point.links.key, point.compute.key, point.durations.key, str(local.batch_size))
    )
    if key not in worlds:
        worlds[key] = _world(task, point, local.batch_size)
    trial = Trial(
        strategy=point.strategy.build(num_clients=task.num_clients),
        world=worlds[key],
        local=local,
        server=point.server.build(facts=point.facts.build()),
        uploads=point.uploads.build(),
        pace=point.pace.build() if point.timed else None,
    )
    with mistakes_at(point.strategy.where, type(trial.strategy).__module__):
        check_trial(task, trial, spread)
    return trial


def _world(task: Task, point: Point, batch_size: int) -> World:
    filled: dict[str, Any] = {"num_clients": task.num_clients, "sizes": task.sizes, "batch_size": batch_size}
    availability = point.availability.build(num_clients=task.num_clients)
    if availability.num_clients != task.num_clients:
        raise ExperimentError(
            f"availability: describes {availability.num_clients} clients, but the task has {task.num_clients}"
        )
    with mistakes_at("availability, links, compute, durations"):
        links, durations = (part.build(num_clients=task.num_clients) for part in (point.links, point.durations))
        return World(availability, links, point.compute.build(**filled), durations)


def check_batch(batch: Batch, run_plan: RunPlan, needed: Sequence[str]) -> None:
    """Refuse metrics that a task does not have, and runs that are over before anybody can answer."""
    check_metrics(batch.tasks[0], [*(run_plan.metrics or ()), *needed])
    for setup in batch.setups:
        for trial in setup.trials:
            check_length(trial, run_plan.rounds)


def calibrate_batch(batch: Batch, reference: str, rounds: int) -> Batch:
    """The key `calibrate`: all strategies get the mean step length of the chosen one, by their local learning rates.

    Factors are means, where every seed has a draw of its own.
    """
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


@checked
def audit_experiment(
    experiment: Experiment,
    rounds: NumRounds = ROUNDS,
    seeds: Seeds = 1,
    progress: Callable[[float], None] | None = None,
) -> Audit:
    """Audit every point of the experiment, under its label, with the rounds and seeds given here.

    Where every run has a draw of its own, the audit is that of the first run's.
    """
    grid = points(experiment)
    batches = build(grid, experiment.seeds[:1])
    total = sum(len(batch.points) for batch in batches)
    parts: list[Audit] = []
    for batch in batches:
        before = sum(len(part.entries) for part in parts)

        def report(done: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress((before + done) / total)

        (setup,) = batch.setups
        trials = {point.label: trial for point, trial in zip(batch.points, setup.trials, strict=True)}
        with mistakes_at("audit"):
            task, names = setup.task, setup.task.names
            parts.append(audit_trials(task.fleet, trials, rounds=rounds, seeds=seeds, progress=report, names=names))
    entries = {entry.label: entry for part in parts for entry in part.entries}
    return Audit(tuple(entries[point.label] for point in grid), parts[0].rounds, parts[0].seeds)
