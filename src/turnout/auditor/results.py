"""What an audit finds, strategy by strategy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turnout.statistics import student_factor
from turnout.strategies.base import Strategy
from turnout.theory import distances

if TYPE_CHECKING:
    import polars as pl

CONFIDENCE = 0.95  # of the interval of each client
DOUBT = 0.01  # chance that a consistent strategy is called biased
EXACTLY = 1e-6  # total variation up to which a closed form counts as the target


@dataclass(frozen=True)
class Audited:
    """What one strategy does in one world; arrays have an entry a client."""

    label: str
    strategy: Strategy
    target: np.ndarray  # α, the share that each client should have
    weights: np.ndarray  # the share that it has, as played
    errors: np.ndarray  # standard error of that
    freedom: int  # degrees of freedom of the errors
    seldom: np.ndarray  # whether it came too seldom for that error to mean anything
    exact: np.ndarray | None  # the share in closed form, where there is one
    available: np.ndarray  # share of rounds in which the client is there
    arrived: np.ndarray  # share of rounds in which its update comes in
    stalest: np.ndarray  # longest time without, in rounds
    staleness: float  # rounds since a client's last arrival, mean over rounds and by target
    moves: np.ndarray  # total weight of each round, times reach: (seeds, rounds)
    participants: float  # asked to train, a round
    uploads: float
    arrivals: float
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> np.ndarray:
        """Exact shares where there is a closed form, else those that were played."""
        return self.weights if self.exact is None else self.exact

    @property
    def low(self) -> np.ndarray:
        """Lower end of the confidence interval of the played share."""
        return self.weights - self._reach

    @property
    def high(self) -> np.ndarray:
        return self.weights + self._reach

    @property
    def _reach(self) -> np.ndarray:
        return student_factor(self.freedom, level=CONFIDENCE) * self.errors

    @property
    def total_variation(self) -> float:
        """½ Σ |α - Ω|: the share of the model's attention that is in the wrong place."""
        return distances.total_variation(self.target, self.best)

    @property
    def noise(self) -> float:
        """Total variation that chance alone may show in a run of this length; zero for a closed form."""
        if self.exact is not None:
            return 0.0
        unknown = np.abs(self.weights - self.target)[self.seldom].sum() / 2
        return float(unknown + self.errors[~self.seldom].sum() / np.sqrt(2 * np.pi))

    @property
    def chi_square(self) -> float:
        return distances.chi_square_to_effective(self.target, np.maximum(self.best, 0.0))

    @property
    def kl(self) -> float:
        return distances.kl_to_effective(self.target, np.maximum(self.best, 0.0))

    @cached_property
    def consistent(self) -> bool:
        """Whether every client has its target: exactly, or within what chance explains (Bonferroni over clients).

        Nothing is held against a strategy for clients that hardly ever came.
        """
        if self.exact is not None:
            return self.total_variation <= EXACTLY
        limit = student_factor(self.freedom, comparisons=self.target.size, level=1 - DOUBT)
        rounding = 1e-5 * self.target  # weights are added up in single precision
        fair = np.abs(self.weights - self.target) <= limit * self.errors + rounding
        return bool((fair | self.seldom).all())

    @property
    def step(self) -> float:
        """Mean total weight of a round."""
        return float(self.moves.mean())

    @property
    def step_variation(self) -> float:
        """Standard deviation of the round's total weight over its mean: how unsteady training will be."""
        return float(self.moves.std() / self.moves.mean()) if self.moves.mean() else float("nan")

    @property
    def ratio(self) -> np.ndarray:
        """By how much each client counts too much: Ω / α."""
        return np.divide(self.best, self.target, out=np.full_like(self.target, np.nan), where=self.target > 0)

    def over(self, count: int = 5) -> np.ndarray:
        """The clients that get most above their target, first the worst."""
        return np.argsort(self.target - self.best, kind="stable")[:count]

    def under(self, count: int = 5) -> np.ndarray:
        """The clients that get most below their target, first the worst."""
        return np.argsort(self.best - self.target, kind="stable")[:count]


@dataclass(frozen=True)
class Audit:
    """Strategies in a world, in the order given."""

    entries: tuple[Audited, ...]
    rounds: int
    seeds: tuple[int, ...]

    def __getitem__(self, label: str) -> Audited:
        for entry in self.entries:
            if entry.label == label:
                return entry
        raise KeyError(f"no strategy {label!r} was audited, only {', '.join(e.label for e in self.entries)}")

    def ranked(self) -> list[Audited]:
        """The consistent ones first, the steadiest of them first; then by their distance from the target."""

        def place(entry: Audited) -> tuple[bool, float]:
            return (not entry.consistent, entry.step_variation if entry.consistent else entry.total_variation)

        return sorted(self.entries, key=place)

    def frame(self) -> pl.DataFrame:
        """Tidy: one row a strategy and client."""
        import polars as pl

        def rows(entry: Audited) -> pl.DataFrame:
            count = entry.target.size
            return pl.DataFrame(
                {
                    "label": [entry.label] * count,
                    "client": np.arange(count),
                    "target": entry.target,
                    "weight": entry.best,
                    "played": entry.weights,
                    "low": entry.low,
                    "high": entry.high,
                    "available": entry.available,
                    "arrived": entry.arrived,
                    "stalest": entry.stalest,
                }
            )

        return pl.concat([rows(entry) for entry in self.entries])
