"""Run an experiment: everything is checked and built first, then simulated, then handed back with labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnout.experiment.build import Batch, build
from turnout.experiment.calibration import calibrated
from turnout.experiment.config import Experiment
from turnout.experiment.errors import mistakes_at
from turnout.experiment.sweep import points
from turnout.files.whole import free_folder
from turnout.simulator import Watch, simulate_trials
from turnout.simulator.history import History
from turnout.simulator.lanes import alike

if TYPE_CHECKING:
    import polars as pl

SEGMENTS = 20  # pieces a run is cut into, so that progress can be told

Progress = Callable[[float], None]  # called with the share that is done


@dataclass(frozen=True)
class Outcome:
    """What came of one point."""

    label: str
    strategy: str  # its name in the experiment
    settings: dict[str, Any]  # the swept keys and their values here
    history: History
    target: np.ndarray  # α, one a client
    pi: np.ndarray | None  # π, where the availability has a stationary law
    lam: np.ndarray | None  # λ, likewise
    rate_factor: float = 1.0  # by which the local learning rate was calibrated
    names: tuple[str, ...] | None = None  # of the clients, where they have any


@dataclass(frozen=True)
class Run:
    """An experiment and what came of it."""

    experiment: Experiment
    points: tuple[Outcome, ...]
    seconds: float
    notes: dict[str, Any] = field(default_factory=dict)  # what else is to be known of it, for `run.json`

    def __getitem__(self, label: str) -> Outcome:
        for outcome in self.points:
            if outcome.label == label:
                return outcome
        raise KeyError(f"no {label!r}; this run has {', '.join(outcome.label for outcome in self.points)}")

    def frame(self) -> pl.DataFrame:
        """Tidy table: label, strategy, one column per swept key, seed, round, kind, name, value."""
        return self._labelled([outcome.history.frame() for outcome in self.points])

    def clients_frame(self) -> pl.DataFrame:
        """One row a label, seed and client: the sums over all rounds, the target, and π and λ where they are known."""
        return self._labelled([_clients(outcome) for outcome in self.points])

    def attendance_frame(self) -> pl.DataFrame | None:
        """One row a label, round and client that were watched: away, excluded, failed or active, in the first seed."""
        import polars as pl

        seen = [point for point in self.points if point.history.attendance is not None]
        frames = [
            point.history.attendance_frame().select(pl.lit(point.label).alias("label"), pl.all()) for point in seen
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

    known = {"target": outcome.target, "pi": outcome.pi, "lam": outcome.lam}
    num_seeds = len(outcome.history.seeds)
    missing = np.full(outcome.target.shape, np.nan)
    columns = {
        name: pl.Series(np.tile(missing if values is None else values, num_seeds).astype(np.float64)).fill_nan(None)
        for name, values in known.items()
    }
    if outcome.names is not None:
        columns["name"] = pl.Series(list(outcome.names) * num_seeds, dtype=pl.String)
    return outcome.history.clients_frame().with_columns(**columns)


def run(
    experiment: Experiment,
    out: str | Path | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Run:
    """Simulate every point of an experiment; with `out`, leave a run folder there.

    A folder that is in the way is refused before anything runs. `watch` is told the metrics as they come.
    """
    folder = None if out is None else free_folder(out)
    begun = time.perf_counter()
    found = {outcome.label: outcome for outcome in outcomes(experiment, progress, watch)}
    ordered = tuple(found[point.label] for point in points(experiment))
    finished = Run(experiment, ordered, time.perf_counter() - begun)
    if folder is not None:
        from turnout.experiment.store import save

        save(finished, folder)
    return finished


def outcomes(
    experiment: Experiment,
    progress: Progress | None = None,
    watch: Watch | None = None,
    without: Collection[str] = (),
) -> Iterator[Outcome]:
    """What comes of every point, as it comes: those that run as one program together, without those of some labels."""
    batches = [
        batch if experiment.calibrate is None else calibrated(batch, experiment.calibrate, experiment.rounds)
        for batch in build(points(experiment))
    ]
    programs = [(batch, members) for batch in batches for members in alike(batch.trials)]
    wanted = [(batch, some) for batch, some in programs if any(batch.points[i].label not in without for i in some)]
    for number, (batch, members) in enumerate(wanted):
        yield from _run_together(experiment, batch, members, _share_of(progress, number, len(wanted)), watch)


def _share_of(progress: Progress | None, number: int, count: int) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        if progress is not None:
            progress((number + done / total) / count)

    return report


def _run_together(
    experiment: Experiment,
    batch: Batch,
    members: Sequence[int],
    report: Callable[[int, int], None],
    watch: Watch | None,
) -> Iterator[Outcome]:
    with mistakes_at(""):
        histories = simulate_trials(
            batch.task,
            [batch.trials[i] for i in members],
            rounds=experiment.rounds,
            seeds=experiment.seeds,
            evaluate_every=experiment.evaluate_every,
            metrics=experiment.metrics,
            segment=max(1, experiment.rounds // SEGMENTS),
            progress=report,
            watch=watch,
        )
    for i, history in zip(members, histories, strict=True):
        assert history.target is not None
        point, factor = batch.points[i], batch.rate_factors[i] if batch.rate_factors else 1.0
        marks = point.label, point.strategy.name, point.settings
        yield Outcome(*marks, history, history.target, history.pi, history.lam, factor)
