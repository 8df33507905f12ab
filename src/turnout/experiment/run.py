"""Run an experiment: check and build everything, then simulate, then return the outcomes with labels."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnout.experiment.build import build, calibrated
from turnout.experiment.circumstances import circumstances
from turnout.experiment.config import Experiment
from turnout.experiment.errors import mistakes_at
from turnout.experiment.sweep import Point, points
from turnout.files.whole import free_folder
from turnout.metrics import DISTANCE
from turnout.simulator import Watch, check_metrics, chosen_seeds, share_of_progress
from turnout.simulator.history import History
from turnout.simulator.lanes import Pace, run_group
from turnout.simulator.trial import grouped
from turnout.tasks.base import Task

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
        own = ({} if self.experiment.calibrate is None else {"rate_factors": factors}) | {
            "title": self.experiment.title,
            "labels": [outcome.label for outcome in self.points],
            "seeds": list(self.experiment.seeds),
            "seconds": round(self.seconds, 3),
            "seconds_of_a_run": {point.label: point.history.seconds for point in self.points},
        }
        return own | self.origin | self.notes

    def __getitem__(self, label: str) -> Outcome:
        for outcome in self.points:
            if outcome.label == label:
                return outcome
        raise KeyError(f"no {label!r}; this run has {', '.join(outcome.label for outcome in self.points)}")

    def frame(self) -> pl.DataFrame:
        """Tidy table: label, strategy, one column per swept key, seed, round, kind, name, value."""
        return self._labelled([outcome.history.frame() for outcome in self.points])

    def clients_frame(self) -> pl.DataFrame:
        """One row per label, seed and client: sums over all rounds, the target, and π and λ where they are known."""
        return self._labelled([_clients(outcome) for outcome in self.points])

    def attendance_frame(self) -> pl.DataFrame | None:
        """One row per label, recorded round and client: away, excluded, failed or active, for the first seed."""
        import polars as pl

        frames = [
            outcome.history.attendance_frame().select(pl.lit(outcome.label).alias("label"), pl.all())
            for outcome in self.points
            if outcome.history.attendance is not None
        ]
        return pl.concat(frames) if frames else None

    def _labelled(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
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


def run(
    experiment: Experiment, out: str | Path | None = None, progress: Progress | None = None, watch: Watch | None = None
) -> Run:
    """Simulate every point of an experiment; with `out`, leave a run folder there.

    A folder that exists already is refused before anything runs. `watch` is called with the metrics as they come.
    """
    folder = None if out is None else free_folder(out)
    finished = run_points(experiment, points(experiment), progress, watch)
    if folder is not None:
        from turnout.experiment.store import save

        save(finished, folder)
    return finished


def run_points(
    experiment: Experiment, grid: Sequence[Point], progress: Progress | None = None, watch: Watch | None = None
) -> Run:
    """Simulate the points of an experiment, where they are at hand."""
    begun = time.perf_counter()
    by_label = {outcome.label: outcome for outcome in outcomes(experiment, grid, progress, watch)}
    return Run(experiment, tuple(by_label[point.label] for point in grid), time.perf_counter() - begun)


def outcomes(
    experiment: Experiment,
    grid: Sequence[Point],
    progress: Progress | None = None,
    watch: Watch | None = None,
    without: Collection[str] = (),
) -> Iterator[Outcome]:
    """The outcome of every point as it is finished, program by program; labels in `without` need not be run."""
    batches = [
        batch if experiment.calibrate is None else calibrated(batch, experiment.calibrate, experiment.rounds)
        for batch in build(grid, experiment.seeds)
    ]
    segment = max(1, experiment.rounds // SEGMENTS)
    with mistakes_at(""):
        pace = Pace(experiment.rounds, experiment.evaluate_every, segment, experiment.metrics)
        seeds = chosen_seeds(experiment.seeds)
        for batch in batches:
            check_metrics(batch.tasks[0], pace.metrics)
        programs = [
            (batch, group)
            for batch in batches
            for group in grouped([setup.trials for setup in batch.setups])
            if any(batch.points[i].label not in without for i in group.members)
        ]
        shares = None if progress is None else lambda done, total: progress(done / total)
        for number, (batch, group) in enumerate(programs):
            report = share_of_progress(shares, watch, number, len(programs), pace.rounds)
            histories = run_group(batch.tasks, group, seeds, pace, report)
            for i, history in zip(group.members, histories, strict=True):
                factor = batch.rate_factors[i] if batch.rate_factors else 1.0
                task = batch.tasks[0] if DISTANCE in history.metrics and len(batch.tasks) == 1 else None
                yield Outcome.of(batch.points[i], history, rate_factor=factor, task=task)
