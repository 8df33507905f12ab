"""Run an experiment: check and build everything, then simulate, then return the outcomes with labels."""
# Long: what a run is, as tables, stands beside how it comes about.

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from turnout.declarations import checked
from turnout.metrics import DISTANCE
from turnout.simulator.batching import run_group
from turnout.simulator.history import History
from turnout.simulator.run_plan import RunPlan
from turnout.simulator.simulate import Watcher, check_seeds, report_share
from turnout.simulator.trial import TrialGroup, group_trials
from turnout.tasks.base import Task
from turnout.workbench.experiment.build import Batch, build, calibrate_batch, check_batch
from turnout.workbench.experiment.circumstances import circumstances
from turnout.workbench.experiment.errors import mistakes_at
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.inputs import in_folder, noted_inputs
from turnout.workbench.experiment.kept import KeptPoint, KeptPoints
from turnout.workbench.experiment.sweep import Point, points

if TYPE_CHECKING:
    import polars as pl

SEGMENTS = 20  # of a run, after each of which progress is reported

Progress = Callable[[float], None]  # called with the share that is done


@dataclass(frozen=True)
class Outcome:
    """The result of one point."""

    label: str
    strategy: str  # its name in the experiment
    settings: dict[str, Any]  # the swept keys and their values here
    history: History
    rate_factor: float = 1.0  # calibration factor of the local learning rate
    names: tuple[str, ...] | None = None  # of the clients, if they have names
    point: Point | None = field(default=None, repr=False)  # as the experiment describes it
    task: Task | None = field(default=None, repr=False)  # kept after a run if its optimum is known

    @property
    def one_world(self) -> Outcome:
        """Only the first seed, if every seed has a world of its own: there a client is another one with every seed."""
        return replace(self, history=self.history.of_first_seed()) if self.history.drawn else self

    @classmethod
    def of(cls, point: Point, history: History, **more: Any) -> Outcome:
        """The outcome of a point of an experiment."""
        return cls(point.label, point.strategy.name, point.settings, history, point=point, **more)

    @property
    def target(self) -> np.ndarray:
        """α, one number per client, or one row per seed; uniform where the history does not have it."""
        if self.history.target is not None:
            return self.history.target
        num_clients = next(iter(self.history.clients.values())).shape[1]
        return np.full(num_clients, 1 / num_clients)


@dataclass(frozen=True)
class Run:
    """An experiment and its results."""

    experiment: Experiment
    points: tuple[Outcome, ...]
    seconds: float
    notes: dict[str, Any] = field(default_factory=dict)  # further entries of `run.json`
    origin: dict[str, Any] = field(default_factory=circumstances)  # command, device, versions, platform, commit

    @functools.cached_property
    def toml(self) -> str:
        """The experiment with every default."""
        return self.experiment.to_toml()

    @functools.cached_property
    def about(self) -> dict[str, Any]:
        """The contents of `run.json`."""
        factors = {outcome.label: outcome.rate_factor for outcome in self.points}
        ticks = {outcome.label: outcome.history.tick_seconds for outcome in self.points}
        own = ({} if self.experiment.calibrate is None else {"rate_factors": factors}) | {
            "title": self.experiment.title,
            "labels": [outcome.label for outcome in self.points],
            "seeds": list(self.experiment.seeds),
            "seconds": round(self.seconds, 3),
            "seconds_of_a_run": {point.label: point.history.seconds for point in self.points},
        }
        own |= {"tick_seconds": ticks} if any(ticks.values()) else {}
        return own | self.origin | self.notes

    def __getitem__(self, label: str) -> Outcome:
        for outcome in self.points:
            if outcome.label == label:
                return outcome
        raise KeyError(f"no {label!r}; this run has {', '.join(outcome.label for outcome in self.points)}")

    def frame(self) -> pl.DataFrame:
        """Tidy table: label, strategy, one column per swept key, seed, round, kind, name, value."""
        return self._with_labels([outcome.history.frame() for outcome in self.points])

    def clients_frame(self) -> pl.DataFrame:
        """One row per label, seed and client: sums over all rounds, the target, and π and λ where they are known."""
        return self._with_labels([_clients(outcome) for outcome in self.points])

    def ages_frame(self) -> pl.DataFrame | None:
        """One row per label, seed and age of updates: how many were used at that age; None where work took no time."""
        import polars as pl

        frames = [
            outcome.history.ages_frame().select(pl.lit(outcome.label).alias("label"), pl.all())
            for outcome in self.points
            if outcome.history.timed
        ]
        return pl.concat(frames) if frames else None

    def attendance_frame(self) -> pl.DataFrame | None:
        """One row per label, recorded round and client: away, excluded, failed or active, for the first seed."""
        import polars as pl

        frames = [
            outcome.history.attendance_frame().select(pl.lit(outcome.label).alias("label"), pl.all())
            for outcome in self.points
            if outcome.history.attendance is not None
        ]
        return pl.concat(frames) if frames else None

    def _with_labels(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        import polars as pl

        parts = []
        for outcome, frame in zip(self.points, frames, strict=True):
            marks = {"label": outcome.label, "strategy": outcome.strategy} | outcome.settings
            columns = [pl.lit(_plain(value)).alias(name) for name, value in marks.items()]
            parts.append(frame.select(*columns, pl.all()))
        joined = pl.concat(parts, how="diagonal_relaxed")
        swept = [name for name in joined.columns if "." in name]  # a dotted key is never the name of a metric
        return joined.select("label", "strategy", *swept, pl.exclude("label", "strategy", *swept))


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _clients(outcome: Outcome) -> pl.DataFrame:
    import polars as pl

    history = outcome.history
    facts = {"target": outcome.target, "pi": history.pi, "lam": history.lam}
    facts |= {} if history.duration is None else {"duration": history.duration}
    num_seeds = len(history.seeds)
    everyone = num_seeds, outcome.target.shape[-1]
    columns = {
        name: pl.Series(np.broadcast_to(np.nan if values is None else values, everyone).ravel().astype(np.float64))
        for name, values in facts.items()
    }
    columns = {name: values.fill_nan(None) for name, values in columns.items()}
    if outcome.names is not None:
        columns["name"] = pl.Series(list(outcome.names) * num_seeds, dtype=pl.String)
    return history.clients_frame().with_columns(**columns)


@checked
def run(
    experiment: Experiment,
    out: str | Path | None = None,
    progress: Progress | None = None,
    watch: Watcher | None = None,
) -> Run:
    """Simulate every point of an experiment; with `out`, leave a run folder there.

    A folder that exists already is refused before anything runs. Finished points are kept in it until all are: if the
    process ends before, `turnout run --resume` goes on. `watch` is called with the metrics as they come.
    """
    if out is None:
        return run_points(experiment, points(experiment), progress, watch)
    from turnout.workbench.experiment.unfinished import Unfinished, begin_run

    with begin_run(Unfinished(Path(out), "run", experiment)) as unfinished:
        return unfinished.run(progress, watch)


def run_points(
    experiment: Experiment,
    grid: Sequence[Point],
    progress: Progress | None = None,
    watch: Watcher | None = None,
    kept: KeptPoints | None = None,
    needed: Sequence[str] = (),
) -> Run:
    """Simulate the points of an experiment, but for those that are kept; a task without a needed metric is refused."""
    by_label: dict[str, Outcome] = {}
    seconds = 0.0
    for outcome, spent in outcomes(experiment, grid, progress, watch, kept, needed=needed):
        by_label[outcome.label] = outcome
        seconds += spent
    return Run(experiment, tuple(by_label[point.label] for point in grid), seconds)


def outcomes(
    experiment: Experiment,
    grid: Sequence[Point],
    progress: Progress | None = None,
    watch: Watcher | None = None,
    kept: KeptPoints | None = None,
    labels: Collection[str] | None = None,
    needed: Sequence[str] = (),
) -> Iterator[tuple[Outcome, float]]:
    """The outcome of every point and the seconds that it took, as it is finished, program by program.

    Points that are kept come from there, and the others are kept before they are returned. With `labels`, only these
    points of the grid; on a CPU their numbers are the same to the bit as among all.
    """
    started = time.perf_counter()
    batches = [
        batch if experiment.calibrate is None else calibrate_batch(batch, experiment.calibrate, experiment.rounds)
        for batch in _build(experiment, grid, kept)
    ]
    segment = max(1, experiment.rounds // SEGMENTS)
    with mistakes_at(""):
        run_plan = RunPlan(experiment.rounds, experiment.evaluate_every, segment, experiment.metrics)
        seeds = check_seeds(experiment.seeds)
        for batch in batches:
            check_batch(batch, run_plan, needed)
        programs = list(_programs(batches, labels))
        shares = None if progress is None else lambda done, total: progress(done / total)
        for number, (batch, group, wanted) in enumerate(programs):
            report = report_share(shares, watch, number, len(programs), run_plan.rounds)
            finished = _find_kept(batch, wanted, kept)
            if missing := [i for i in wanted if i not in finished]:
                saved = None if kept is None else kept.states(batch.points[i].label for i in missing)
                chosen = [group.members.index(i) for i in missing]
                histories = run_group(batch.tasks, group, seeds, run_plan, report, saved, chosen, experiment.spread)
                finished |= _keep(batch, missing, histories, time.perf_counter() - started, kept)
                started = time.perf_counter()
            for i, point in finished.items():
                yield _outcome(batch, i, point), point.seconds


def _build(experiment: Experiment, grid: Sequence[Point], kept: KeptPoints | None) -> tuple[Batch, ...]:
    """All objects; points that are kept must have read the same files."""
    if kept is None:
        return build(grid, experiment.seeds, experiment.spread)
    kept.check_inputs()
    with in_folder(kept.place), noted_inputs(experiment.document()) as inputs:
        batches = build(grid, experiment.seeds, experiment.spread)
    kept.bind(inputs)
    return batches


def _programs(
    batches: Sequence[Batch], labels: Collection[str] | None
) -> Iterator[tuple[Batch, TrialGroup, list[int]]]:
    """The points that run as one program, and which of them are wanted; programs of which none is are left out."""
    for batch in batches:
        for group in group_trials([setup.trials for setup in batch.setups]):
            if wanted := [i for i in group.members if labels is None or batch.points[i].label in labels]:
                yield batch, group, wanted


def _outcome(batch: Batch, index: int, point: KeptPoint) -> Outcome:
    task = batch.tasks[0] if DISTANCE in point.history.metrics and len(batch.tasks) == 1 else None
    more = {"rate_factor": point.rate_factor, "names": batch.names, "task": task}
    return Outcome.of(batch.points[index], point.history, **more)


def _find_kept(batch: Batch, wanted: Sequence[int], kept: KeptPoints | None) -> dict[int, KeptPoint]:
    """Those of the wanted points that are kept, by their index."""
    if kept is None:
        return {}
    points = {i: point for i in wanted if (point := kept.find(batch.points[i].label)) is not None}
    form = jax.tree.structure(eqx.filter_eval_shape(batch.tasks[0].init, jr.key(0)))
    return {
        i: replace(point, history=replace(point.history, params=jax.tree.unflatten(form, point.history.params)))
        for i, point in points.items()
    }


def _keep(
    batch: Batch, indices: Sequence[int], histories: Sequence[History], seconds: float, kept: KeptPoints | None
) -> dict[int, KeptPoint]:
    """Keep the points of a program that has taken so many seconds, by their index."""
    factors = [batch.rate_factors[i] if batch.rate_factors else 1.0 for i in indices]
    share = seconds / len(indices)
    points = [KeptPoint(history, factor, share) for history, factor in zip(histories, factors, strict=True)]
    if kept is not None:
        labels = [batch.points[i].label for i in indices]
        for label, point in zip(labels, points, strict=True):
            kept.keep(label, point)
        kept.drop_states(labels)
    return dict(zip(indices, points, strict=True))
