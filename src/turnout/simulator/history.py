"""The results of a training."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from turnout.errors import check_installed
from turnout.metrics import metric_named
from turnout.presented import Tabular
from turnout.simulator.ages import STARTS
from turnout.simulator.attendance import STATES, Attendance
from turnout.types import PyTree

if TYPE_CHECKING:
    import polars as pl

KINDS = ("metric", "record")  # of the rows of a tidy table


@dataclass(frozen=True)
class History(Tabular):
    """Arrays by name, seeds first: metrics where the model was evaluated, records of every round, sums per client."""

    seeds: tuple[int, ...]
    rounds: int
    evaluated: np.ndarray  # rounds after which metrics were taken, 0 for the initial model
    metrics: dict[str, np.ndarray]  # (seed, evaluation)
    records: dict[str, np.ndarray]  # (seed, round)
    clients: dict[str, np.ndarray]  # (seed, client)
    params: PyTree = field(repr=False)  # the final models, seeds first
    attendance: Attendance | None = field(default=None, repr=False)  # in the run of the first seed
    ages: np.ndarray | None = field(default=None, repr=False)  # (seed, bin), updates used by age, where work takes time
    tick_seconds: float | None = None  # length of a tick, where work takes time and that is known
    seconds: float | None = None  # per seed, without compilation
    target: np.ndarray | None = field(default=None, repr=False)  # α, one number per client, or one row per seed
    pi: np.ndarray | None = field(default=None, repr=False)  # π, where the availability has a stationary law
    lam: np.ndarray | None = field(default=None, repr=False)  # λ, likewise
    duration: np.ndarray | None = field(default=None, repr=False)  # mean ticks of work, where it takes time, likewise

    def __repr__(self) -> str:
        finals = ", ".join(f"{name} {values[:, -1].mean():.4g}" for name, values in self.metrics.items())
        return f"History of {self.rounds} rounds, {len(self.seeds)} seeds; at the end {finals or 'no metrics'}"

    @property
    def timed(self) -> bool:
        """Whether work took time; then `rounds` are ticks."""
        return "server_steps" in self.records

    def hours(self, ticks: np.ndarray | float | int) -> np.ndarray:
        """The time after so many ticks; NaN where the length of a tick is not known."""
        return np.asarray(np.multiply(ticks, np.nan if self.tick_seconds is None else self.tick_seconds / 3600))

    @property
    def drawn(self) -> bool:
        """Whether every seed has data or a world of its own."""
        return any(values is not None and values.ndim > 1 for values in (self.target, self.pi))

    def of_first_seed(self) -> History:
        """The run of the first seed alone."""
        arrays = {name: getattr(self, name) for name in ("metrics", "records", "clients", "params", "ages")}
        of_fleet = {name: getattr(self, name) for name in ("target", "pi", "lam", "duration")}
        own = {name: values[0] for name, values in of_fleet.items() if values is not None and values.ndim > 1}
        return replace(self, seeds=self.seeds[:1], **jax.tree.map(lambda values: values[:1], arrays), **own)

    @property
    def diverged(self) -> np.ndarray:
        """Which seeds ended with a model that is not finite."""
        # A diverged model has infinite losses; its accuracy may still be finite.
        falling = [name for name in self.metrics if not metric_named(name).higher_is_better]
        if not falling:
            return ~np.all([_finite_rows(np.asarray(leaf)) for leaf in jax.tree.leaves(self.params)], axis=0)
        return ~np.all([np.isfinite(self.metrics[name][:, -1]) for name in falling], axis=0)

    def final(self, metric: str) -> np.ndarray:
        """Value of a metric after the last round, one per seed."""
        return self._values(metric)[:, -1]

    def rounds_to(self, metric: str, level: np.ndarray | float) -> np.ndarray:
        """Rounds until a metric first reaches a level, one per seed; infinite where it never does.

        Where work takes time these are ticks, and `hours` has their time. The level is one number, or one per seed.
        """
        values, levels = self._values(metric), np.broadcast_to(level, len(self.seeds))[:, None]
        reached = values >= levels if metric_named(metric).higher_is_better else values <= levels
        return np.where(reached.any(axis=1), self.evaluated[np.argmax(reached, axis=1)].astype(float), np.inf)

    def _values(self, metric: str) -> np.ndarray:
        if metric not in self.metrics:
            raise KeyError(f"no metric {metric!r}; this task has {', '.join(sorted(self.metrics))}")
        return self.metrics[metric]

    def frame(self) -> pl.DataFrame:
        """Tidy table: seed, round, kind, name, value. The kind is metric, or record of a round; rounds count from 1.

        Where work takes time rounds are ticks, and there is a column `hours` if their length is known.
        """
        check_installed("polars", "History.frame")
        import polars as pl

        every = np.arange(1, self.rounds + 1)
        kinds = ("metric", self.evaluated, self.metrics), ("record", every, self.records)
        rows = pl.concat(
            _tidy(self.seeds, rounds, kind, name, values)
            for kind, rounds, arrays in kinds
            for name, values in arrays.items()
        )
        if self.tick_seconds is None:
            return rows
        return rows.with_columns(hours=pl.col("round") * (self.tick_seconds / 3600))

    def clients_frame(self) -> pl.DataFrame:
        """One row per seed and client, with the sums over all rounds."""
        check_installed("polars", "History.clients_frame")
        import polars as pl

        num_seeds, num_clients = next(iter(self.clients.values())).shape
        index = {
            "seed": np.repeat(np.asarray(self.seeds, np.int64), num_clients),
            "client": np.tile(np.arange(num_clients), num_seeds),
        }
        return pl.DataFrame(index | {name: values.ravel() for name, values in self.clients.items()})

    def ages_frame(self) -> pl.DataFrame:
        """How many updates were used at which age: one row per seed and age; from 64 server steps on the least age."""
        check_installed("polars", "History.ages_frame")
        import polars as pl

        if self.ages is None:
            raise ValueError("this history has no ages: work took no time")
        rows, bins = np.nonzero(self.ages)
        return pl.DataFrame(
            {
                "seed": np.asarray(self.seeds, np.int64)[rows],
                "age": STARTS[bins],
                "updates": self.ages[rows, bins].astype(np.int64),
            }
        )

    def attendance_frame(self) -> pl.DataFrame:
        """One row per recorded round and client of the run of the first seed, with the client's state."""
        check_installed("polars", "History.attendance_frame")
        import polars as pl

        if self.attendance is None:
            raise ValueError("this history has no attendance")
        attendance = self.attendance
        codes = attendance.states.ravel()
        return pl.DataFrame(
            {
                "seed": np.full(codes.size, attendance.seed, np.int64),
                "round": np.repeat(attendance.rounds.astype(np.int64), len(attendance.clients)),
                "client": np.tile(attendance.clients.astype(np.int64), len(attendance.rounds)),
                "state": pl.Series(STATES, dtype=pl.Enum(STATES)).gather(codes),
            }
        )


def _finite_rows(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(rows).reshape(len(rows), -1).all(axis=1))


def _tidy(seeds: tuple[int, ...], rounds: np.ndarray, kind: str, name: str, values: np.ndarray) -> pl.DataFrame:
    import polars as pl

    columns = {
        "seed": np.repeat(np.asarray(seeds, np.int64), len(rounds)),
        "round": np.tile(rounds.astype(np.int64), len(seeds)),
        "value": values.astype(np.float64).ravel(),
    }
    marks = pl.lit(kind, pl.Enum(KINDS)).alias("kind"), pl.lit(name).alias("name")
    return pl.DataFrame(columns).select("seed", "round", *marks, "value")
