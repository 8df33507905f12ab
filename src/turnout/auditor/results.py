"""The results of an audit, strategy by strategy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from turnout.errors import check_installed
from turnout.presented import Tabular
from turnout.statistics import student_factor
from turnout.strategies.base import Strategy
from turnout.theory.bias import chi_square_to_effective, kl_to_effective, total_variation
from turnout.types import PyTree

if TYPE_CHECKING:
    import polars as pl

CONFIDENCE = 0.95  # of the interval of each client's share
FALSE_ALARM_RATE = 0.01  # probability that a consistent strategy is called biased
MAX_EXACT_DISTANCE = 1e-6  # total variation from the target at which a closed form is still consistent


@dataclass(frozen=True)
class UsedAges:
    """How old updates are when a step of the server uses them, in such steps."""

    mean: float
    median: float
    high: float  # which nine of ten do not exceed
    by_client: np.ndarray  # mean age, NaN for a client of which none was used


@dataclass(frozen=True)
class Audited:
    """What one strategy does in one world; arrays have one entry per client."""

    label: str
    strategy: Strategy[PyTree]
    target: np.ndarray  # α, the share that each client should have
    weights: np.ndarray  # the share that it has, as played
    errors: np.ndarray  # standard errors of the weights
    freedom: int  # degrees of freedom of the errors
    seldom: np.ndarray  # whether it came too seldom for an error to be estimated
    exact: np.ndarray | None  # the share in closed form, if there is one
    available: np.ndarray  # share of rounds in which the client is available
    arrived: np.ndarray  # share of rounds in which its update arrives
    stalest: np.ndarray  # most rounds without an arrival
    staleness: float  # rounds since a client's last arrival, mean over rounds, weighted by the target
    moves: np.ndarray  # total weight of each round, times reach: (seeds, rounds); in time, of the server's steps
    participants: float  # clients asked to train, per round
    uploads: float
    arrivals: float
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None  # of the clients, if they have names
    duration: np.ndarray | None = None  # mean ticks of a client's work, where it takes time
    ages: UsedAges | None = None  # of the updates, likewise
    formula: np.ndarray | None = None  # the share by a formula that is close, where work takes time and there is one

    @property
    def best(self) -> np.ndarray:
        """Exact shares if there is a closed form, else the played ones."""
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
        """½ Σ |α - Ω|: the share of the weight that goes to the wrong clients."""
        return total_variation(self.target, self.best)

    @property
    def off_by_formula(self) -> float | None:
        """The same as `total_variation`, by the formula."""
        return None if self.formula is None else total_variation(self.target, self.formula)

    @property
    def noise(self) -> float:
        """Total variation expected from chance alone in a run of this length; zero for a closed form."""
        if self.exact is not None:
            return 0.0
        unmeasured = np.abs(self.weights - self.target)[self.seldom].sum() / 2
        return float(unmeasured + self.errors[~self.seldom].sum() / np.sqrt(2 * np.pi))

    @property
    def chi_square(self) -> float:
        return chi_square_to_effective(self.target, np.maximum(self.best, 0.0))

    @property
    def kl(self) -> float:
        return kl_to_effective(self.target, np.maximum(self.best, 0.0))

    @cached_property
    def consistent(self) -> bool:
        """Whether every client has its target, exactly or up to chance (Bonferroni over clients).

        Clients that came too seldom do not count against a strategy.
        """
        if self.exact is not None:
            return self.total_variation <= MAX_EXACT_DISTANCE
        limit = student_factor(self.freedom, comparisons=self.target.size, level=1 - FALSE_ALARM_RATE)
        rounding = 1e-5 * self.target  # weights are summed in single precision
        on_target = np.abs(self.weights - self.target) <= limit * self.errors + rounding
        return bool((on_target | self.seldom).all())

    @property
    def step(self) -> float:
        """Mean total weight per round."""
        return float(self.moves.mean())

    @property
    def step_variation(self) -> float:
        """Standard deviation of the total weight per round, over its mean: how unsteady training will be."""
        return float(self.moves.std() / self.moves.mean()) if self.moves.mean() else float("nan")

    @property
    def ratio(self) -> np.ndarray:
        """Ω / α: how many times its target each client has."""
        return np.divide(self.best, self.target, out=np.full_like(self.target, np.nan), where=self.target > 0)

    def name(self, client: int) -> str:
        """Name of a client, or its number if it has none."""
        return str(client) if self.names is None else self.names[client]

    def over(self, count: int = 5) -> np.ndarray:
        """The clients that are farthest above their target, the worst first."""
        order = np.argsort(self.target - self.best, kind="stable")
        return order[self.best[order] > self.target[order]][:count]

    def under(self, count: int = 5) -> np.ndarray:
        """The clients that are farthest below their target, the worst first."""
        order = np.argsort(self.best - self.target, kind="stable")
        return order[self.best[order] < self.target[order]][:count]


@dataclass(frozen=True)
class Audit(Tabular):
    """Audited strategies, in the order given."""

    entries: tuple[Audited, ...]
    rounds: int
    seeds: tuple[int, ...]

    def __repr__(self) -> str:
        off = ", ".join(f"{entry.label} {100 * entry.total_variation:.2f} %" for entry in self.entries)
        return f"Audit of {self.rounds} rounds; off target: {off}"

    def __getitem__(self, label: str) -> Audited:
        for entry in self.entries:
            if entry.label == label:
                return entry
        raise KeyError(f"no strategy {label!r} was audited, only {', '.join(e.label for e in self.entries)}")

    def ranked(self) -> list[Audited]:
        """Consistent strategies first, by steadiness; then the others, by distance from the target."""

        def place(entry: Audited) -> tuple[bool, float]:
            return (not entry.consistent, entry.step_variation if entry.consistent else entry.total_variation)

        return sorted(self.entries, key=place)

    def to_json(self) -> dict[str, Any]:
        """All that `audit.json` says, as plain dicts and lists; null where not finite."""
        return self.writer().audit_summary(self)

    def frame(self) -> pl.DataFrame:
        """A tidy table: one row per strategy and client, with the clients' names if they have any."""
        check_installed("polars", "Audit.frame")
        import polars as pl

        def rows(entry: Audited) -> pl.DataFrame:
            count = entry.target.size
            names = {} if entry.names is None else {"name": entry.names}
            return pl.DataFrame(
                {
                    "label": [entry.label] * count,
                    "client": np.arange(count),
                    **names,
                    "target": entry.target,
                    "weight": entry.best,
                    "played": entry.weights,
                    "low": entry.low,
                    "high": entry.high,
                    "available": entry.available,
                    "arrived": entry.arrived,
                    "stalest": entry.stalest,
                    **({} if entry.duration is None else {"duration": entry.duration}),
                    **({} if entry.ages is None else {"age": entry.ages.by_client}),
                    **({} if entry.formula is None else {"formula": entry.formula}),
                }
            )

        return pl.concat([rows(entry) for entry in self.entries], how="diagonal")
