"""Clients whose work takes time, as every function here reads them: availability, durations, and leaving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from turnout.availability.markov import switching_rates
from turnout.declarations.arrays import refuse, spread

Leaving = Literal["continue", "pause", "abort", "answer"]  # what becomes of work whose client is away
# Ticks beyond the first: a whole number per client, or a table of probabilities.
Durations = Sequence[float | int] | Sequence[Sequence[float | int]] | np.ndarray
Shared = float | int | Sequence[float | int] | np.ndarray  # one number for all, or one per client

LONGEST_DURATION = 100_000
ROUNDING = 1e-9  # by which the probabilities of a client may miss 1


@dataclass(frozen=True)
class TimedClients:
    """N clients, independent of each other."""

    pi: np.ndarray  # long-run share of ticks in which the client is there
    lam: np.ndarray  # correlation of one tick with the next
    wake: np.ndarray  # u = (1 - λ) π, P(away -> there)
    sleep: np.ndarray  # s = (1 - λ)(1 - π), P(there -> away)
    table: np.ndarray  # P(D = 0), P(D = 1), …, a row per client
    leaving: Leaving

    @property
    def count(self) -> int:
        return self.pi.size

    @property
    def always_there(self) -> bool:
        return bool((self.pi == 1).all())

    @property
    def fixed(self) -> np.ndarray | None:
        """The durations, if nobody's ever differs."""
        return self.table.argmax(axis=1) if bool((self.table.max(axis=1) == 1).all()) else None

    def away(self, ticks: np.ndarray | float) -> np.ndarray:
        """Q(g) = (1 - π)(1 - λ^g): P(away g ticks after one in which it was there), g at least 1; it may be a mean."""
        return (1 - self.pi) * (1 - np.sign(self.lam) * np.abs(self.lam) ** ticks)

    @property
    def kept_at_work(self) -> np.ndarray:
        """E λ^D of work that is answered from anywhere; 1 where a client is there when its work ends."""
        if self.leaving != "answer":
            return np.ones(self.count)
        return (self.table * self.lam[:, None] ** np.arange(self.table.shape[1])).sum(axis=1)

    def away_after_answer(self, ticks: np.ndarray | float) -> np.ndarray:
        """P(away so many ticks after an answer), at least 1; it may be a mean."""
        return (1 - self.pi) * (1 - self.kept_at_work * np.sign(self.lam) * np.abs(self.lam) ** ticks)

    def refuse_answers(self, where: str) -> None:
        """Raise a ValueError where there is no formula for work that is answered from anywhere."""
        if self.leaving == "answer":
            raise ValueError(f'leaving = "answer" has no formula {where}; audit it instead')

    def away_after(self, count: int) -> np.ndarray:
        """Q(0), Q(1), …, so many columns, a row per client."""
        return (1 - self.pi[:, None]) * (1 - self.lam[:, None] ** np.arange(count))


def read_clients(pi: Shared, lam: Shared, durations: Durations, leaving: Leaving) -> TimedClients:
    """Check what describes the clients; a ValueError names who has what wrong."""
    if leaving not in get_args(Leaving):
        raise ValueError(f'leaving = "{leaving}": must be "continue", "pause", "abort" or "answer"')
    table = read_durations(durations)
    count = table.shape[0]
    rate, correlation = _one_each("pi", pi, count), _one_each("lam", lam, count)
    wake, sleep = switching_rates(rate, correlation)
    leaving = "continue" if leaving == "answer" and (rate == 1).all() else leaving
    return TimedClients(rate, correlation, wake, sleep, table, leaving)


def _one_each(name: str, values: Shared, count: int) -> np.ndarray:
    return spread(name, values.tolist() if isinstance(values, np.ndarray) else values, count)


def read_durations(durations: Durations) -> np.ndarray:
    """The table of P(D = 0), P(D = 1), … with one row per client, without columns in which nobody ends."""
    rule = "give one whole number per client, or a row of probabilities per client"
    try:
        given = np.asarray(durations, dtype=np.float64)
    except ValueError:
        raise ValueError(f"durations has rows of unequal lengths: {rule}") from None
    if given.ndim == 1 and given.size:
        whole = (given >= 0) & (given == np.floor(given))
        refuse(~whole, lambda k: f"client {k} has durations = {given[k]:g}", "must be a whole number of at least 0")
        refuse(given > LONGEST_DURATION, lambda k: f"client {k} has durations = {given[k]:.0f}", _TOO_LONG)
        table = np.zeros((given.size, int(given.max()) + 1))
        table[np.arange(given.size), given.astype(int)] = 1.0
        return table
    if given.ndim != 2 or given.size == 0:
        raise ValueError(f"durations has shape {given.shape}: {rule}")
    least = given.min(axis=1)
    refuse(~(least >= 0), lambda k: f"client {k} has durations with {least[k]:g}", "probabilities must not be negative")
    sums = given.sum(axis=1)
    far = ~(np.abs(sums - 1) <= ROUNDING)
    refuse(far, lambda k: f"client {k} has durations that add up to {sums[k]:g}", "probabilities must add up to 1")
    last = int(np.flatnonzero(given.any(axis=0))[-1])
    if last > LONGEST_DURATION:
        raise ValueError(f"durations has {last + 1} columns that are used: {_TOO_LONG}")
    return given[:, : last + 1] / sums[:, None]


_TOO_LONG = f"must be at most {LONGEST_DURATION:,} ticks: let a tick last longer"
