"""How long work takes: ticks of time beyond the one in which a client starts, its way there and back included."""
# Long: laws of one kind, each of a few lines.

from __future__ import annotations

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import ndtr

from turnout.declarations import Count, CountOrZero, Counts, Declared, NotNegatives, Numbers, Positive, Seed, checked
from turnout.declarations.arrays import refuse, spread, spread_whole
from turnout.types import RandomKey, Round, Steps

__all__ = [
    "Durations",
    "FixedDurations",
    "LognormalDurations",
    "Recorded",
    "Resampled",
    "Timed",
    "drawn",
    "fixed",
    "instant",
    "lognormal",
    "recorded",
    "resampled",
    "timed",
]

Leaving = Literal["continue", "pause", "abort", "answer"]
MAX_TICKS = 1_048_576  # of one piece of work
_RARELY = -5.0  # standard deviations: one draw in three million is shorter
PerClientNumbers = float | Sequence[float]
Ticks = Annotated[float, Numbers(0, MAX_TICKS)]
TickCounts = Annotated[Steps, Numbers(0, MAX_TICKS)]


class Durations(Declared):
    """The law of the time that work takes.

    `leaving` says what becomes of work whose client is not available: it goes on, it pauses, or it is lost, and an
    answer is sent only when the client is available; or it goes on and is answered as soon as it is over ("answer").
    """

    leaving: Leaving = eqx.field(static=True, kw_only=True, default="continue")
    tick_seconds: Positive | None = eqx.field(static=True, kw_only=True, default=None)  # so that results have hours

    @abc.abstractmethod
    def step(self, t: Round, steps: Steps, key: RandomKey) -> Steps:
        """Ticks beyond the first that each client needs for so many steps, if it starts in tick t."""

    @abc.abstractmethod
    def law(self, steps: np.ndarray) -> np.ndarray:
        """The probability of 0, 1, 2, … ticks beyond the first after so many steps, one row per client."""

    @property
    @abc.abstractmethod
    def num_clients(self) -> int:
        """How many clients the law describes."""

    @property
    @abc.abstractmethod
    def shortest(self) -> int:
        """Ticks beyond the first that practically all work needs, whoever does it."""

    def mean(self, steps: np.ndarray) -> np.ndarray:
        """Ticks beyond the first, on average."""
        law = self.law(steps)
        return law @ np.arange(law.shape[1])


class FixedDurations(Durations):
    """Each client has its own, the same every time."""

    ticks: TickCounts

    def step(self, t: Round, steps: Steps, key: RandomKey) -> Steps:
        return self.ticks

    def law(self, steps: np.ndarray) -> np.ndarray:
        ticks = np.asarray(self.ticks)
        return (ticks[:, None] == np.arange(ticks.max() + 1)).astype(float)

    @property
    def shortest(self) -> int:
        return int(jnp.min(self.ticks))

    @property
    def num_clients(self) -> int:
        return self.ticks.shape[0]


class LognormalDurations(Durations):
    """Log-normal around each client's own median, drawn anew every time, at most `most` ticks in all."""

    median: NotNegatives  # ticks, the first included
    sigma: NotNegatives  # of the logarithm
    most: NotNegatives

    def step(self, t: Round, steps: Steps, key: RandomKey) -> Steps:
        length = self.median * jnp.exp(self.sigma * jr.normal(key, self.median.shape))
        return _beyond_first(jnp.minimum(length, self.most))

    def law(self, steps: np.ndarray) -> np.ndarray:
        return _lognormal_law(*(np.asarray(part, np.float64) for part in (self.median, self.sigma, self.most)))

    @property
    def shortest(self) -> int:
        return int(jnp.min(_beyond_first(jnp.minimum(self.median * jnp.exp(_RARELY * self.sigma), self.most))))

    @property
    def num_clients(self) -> int:
        return self.median.shape[0]


class Timed(Durations):
    """Seconds on the way there and back, and so many per step, all times a log-normal factor drawn anew every time."""

    way_seconds: NotNegatives  # download and upload
    step_seconds: NotNegatives
    sigma: NotNegatives  # of the logarithm of the factor

    def __check_init__(self) -> None:
        if self.tick_seconds is None:
            raise ValueError("tick_seconds is missing: these durations are in seconds, and need the length of a tick")

    def step(self, t: Round, steps: Steps, key: RandomKey) -> Steps:
        factor = jnp.exp(self.sigma * jr.normal(key, self.sigma.shape))
        length = (self.way_seconds + self.step_seconds * steps.astype(jnp.float32)) * factor / self._tick
        return _beyond_first(jnp.minimum(length, MAX_TICKS))

    def law(self, steps: np.ndarray) -> np.ndarray:
        way, each, sigma = (np.asarray(part, np.float64) for part in (self.way_seconds, self.step_seconds, self.sigma))
        return _lognormal_law((way + each * steps) / self._tick, sigma, np.full(len(way), float(MAX_TICKS)))

    @property
    def shortest(self) -> int:
        return int(jnp.min(_beyond_first(self.way_seconds * jnp.exp(_RARELY * self.sigma) / self._tick)))

    @property
    def _tick(self) -> float:
        assert self.tick_seconds is not None  # `timed` wants it
        return float(self.tick_seconds)

    @property
    def num_clients(self) -> int:
        return self.sigma.shape[0]


class Resampled(Durations):
    """Each time one of the client's own recorded durations, drawn uniformly."""

    ticks: Annotated[Int[Array, "clients most"], Numbers(0, MAX_TICKS)]  # recorded ones first in each row
    count: Counts  # recorded ones

    def step(self, t: Round, steps: Steps, key: RandomKey) -> Steps:
        place = jnp.floor(jr.uniform(key, self.count.shape) * self.count.astype(jnp.float32)).astype(jnp.int32)
        place = jnp.minimum(place, self.count - 1)
        return jnp.take_along_axis(self.ticks, place[:, None], axis=1)[:, 0]

    def law(self, steps: np.ndarray) -> np.ndarray:
        return _law_of_rows(np.asarray(self.ticks), np.asarray(self.count))

    @property
    def shortest(self) -> int:
        return _shortest_of_rows(self.ticks, self.count)

    @property
    def num_clients(self) -> int:
        return self.count.shape[0]


class Recorded(Durations):
    """As long as it took in a recording: what begins in a tick, as the last that had begun until then."""

    ticks: Annotated[Int[Array, "clients most"], Numbers(0, MAX_TICKS)]  # in the order in which they began
    begun: Int[Array, "clients most"]  # tick in which each began; beyond all time where there is none
    count: Counts

    def step(self, t: Round, steps: Steps, key: RandomKey) -> Steps:
        last = jnp.sum(self.begun <= jnp.asarray(t, jnp.int32), axis=1, dtype=jnp.int32) - 1
        return jnp.take_along_axis(self.ticks, jnp.maximum(last, 0)[:, None], axis=1)[:, 0]

    def law(self, steps: np.ndarray) -> np.ndarray:
        return _law_of_rows(np.asarray(self.ticks), np.asarray(self.count))

    @property
    def shortest(self) -> int:
        return _shortest_of_rows(self.ticks, self.count)

    @property
    def num_clients(self) -> int:
        return self.count.shape[0]


def _shortest_of_rows(ticks: Int[Array, "clients most"], count: Counts) -> int:
    recorded = jnp.arange(ticks.shape[1])[None, :] < count[:, None]
    return int(jnp.min(jnp.where(recorded, ticks, MAX_TICKS)))


def _law_of_rows(ticks: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Each client's law, where each of its first `count` ticks is as likely as the others."""
    law = np.zeros((len(ticks), ticks.max() + 1))
    clients, places = np.nonzero(np.arange(ticks.shape[1]) < count[:, None])
    np.add.at(law, (clients, ticks[clients, places]), 1.0)
    return law / count[:, None]


def _beyond_first(length: Float[Array, " clients"]) -> Steps:
    """Whole ticks beyond the first that work of this length, in ticks, occupies."""
    return jnp.maximum(jnp.ceil(length).astype(jnp.int32) - 1, 0)


def _lognormal_law(median: np.ndarray, sigma: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Probabilities of whole ticks beyond the first; lengths beyond all but one in 10⁹ are taken as the longest."""
    longest = np.minimum(median * np.exp(6.0 * sigma), most)
    count = int(np.clip(np.ceil(longest.max()), 1, MAX_TICKS))
    ends = np.arange(1, count, dtype=float)  # the work is over within so many ticks
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(ends / median[:, None]) / sigma[:, None]
    within = np.where(sigma[:, None] > 0, ndtr(score), ends >= median[:, None])
    within = np.where(ends >= np.ceil(longest)[:, None], 1.0, within)
    return np.diff(within, axis=1, prepend=0.0, append=1.0)


@checked
def instant(num_clients: Count) -> None:
    """Build nothing: all work ends in the tick in which it starts, and a tick is a round."""


@checked
def fixed(
    num_clients: Count,
    ticks: int | Sequence[int] = 0,
    leaving: Leaving = "continue",
    tick_seconds: Positive | None = None,
) -> FixedDurations:
    """The same every time, in ticks beyond the first: one number for all, or one per client."""
    whole = spread_whole("durations: ticks", ticks, num_clients, 0)
    refuse(whole > MAX_TICKS, lambda k: f"client {k} has durations of {whole[k]:,} ticks", f"at most {MAX_TICKS:,}")
    return FixedDurations(jnp.asarray(whole), leaving=leaving, tick_seconds=tick_seconds)


@checked
def drawn(
    num_clients: Count,
    median: Ticks,
    sigma: Ticks,
    low: CountOrZero = 0,
    high: CountOrZero = 20,
    seed: Seed = 0,
    leaving: Leaving = "continue",
    tick_seconds: Positive | None = None,
) -> FixedDurations:
    """One number of ticks beyond the first per client, drawn once: log-normal, cut at `low` and `high`."""
    if not 0 <= low <= high <= MAX_TICKS:
        raise ValueError(f"durations: low and high must be 0 ≤ low ≤ high ≤ {MAX_TICKS:,}, not {low} and {high}")
    draws = median * np.exp(sigma * np.random.default_rng(seed).standard_normal(num_clients))
    return fixed(num_clients, np.clip(np.rint(draws), low, high).astype(int).tolist(), leaving, tick_seconds)


@checked
def lognormal(
    num_clients: Count,
    median: PerClientNumbers,
    sigma: PerClientNumbers = 0.5,
    most: PerClientNumbers = 1000.0,
    leaving: Leaving = "continue",
    tick_seconds: Positive | None = None,
) -> LognormalDurations:
    """Drawn anew every time around the client's median, in ticks in all, the first included; at most `most`."""
    parts = {
        name: spread(f"durations: {name}", value, num_clients)
        for name, value in {"median": median, "sigma": sigma, "most": most}.items()
    }
    for name, lowest in (("median", 0.0), ("sigma", 0.0), ("most", 1.0)):
        _check_range(name, parts[name], lowest, MAX_TICKS)
    return LognormalDurations(
        *(jnp.asarray(part, jnp.float32) for part in parts.values()), leaving=leaving, tick_seconds=tick_seconds
    )


@checked
def timed(
    num_clients: Count,
    tick_seconds: Positive,
    per_step: PerClientNumbers,
    download: PerClientNumbers = 0.0,
    upload: PerClientNumbers = 0.0,
    sigma: PerClientNumbers = 0.0,
    leaving: Leaving = "continue",
) -> Timed:
    """Download + steps · `per_step` + upload in seconds, each one number or one per client.

    All of it is multiplied by a log-normal factor of `sigma`, drawn anew every time.
    """
    parts = {
        name: spread(f"durations: {name}", value, num_clients)
        for name, value in {"per_step": per_step, "download": download, "upload": upload, "sigma": sigma}.items()
    }
    for name, values in parts.items():
        _check_range(name, values, 0.0, float(2**31))
    ways = parts["download"] + parts["upload"], parts["per_step"], parts["sigma"]
    ticks = (ways[0] + ways[1]) / tick_seconds
    refuse(
        ticks > MAX_TICKS,
        lambda k: f"client {k} has durations of {ticks[k]:,.0f} ticks for one step",
        f"must be at most {MAX_TICKS:,}, so that work ends",
    )
    return Timed(*(jnp.asarray(part, jnp.float32) for part in ways), leaving=leaving, tick_seconds=tick_seconds)


@checked
def resampled(
    num_clients: Count, seconds: Sequence[Sequence[float]], tick_seconds: Positive, leaving: Leaving = "continue"
) -> Resampled:
    """Each time one of the client's own `seconds`, a list per client; whose list is empty draws from all others'."""
    if len(seconds) != num_clients:
        raise ValueError(f"durations: {len(seconds)} lists of seconds for {num_clients} clients: give one per client")
    own = [np.asarray(each, np.float64).ravel() for each in seconds]
    everybody = np.concatenate(own)
    if everybody.size == 0:
        raise ValueError("durations: no client has a recorded duration, so nothing can be drawn")
    _check_range("seconds", everybody, 0.0, MAX_TICKS * tick_seconds, "record")
    own = [each if each.size else everybody for each in own]
    ticks = np.zeros((num_clients, max(each.size for each in own)), np.int32)
    for row, each in zip(ticks, own, strict=True):
        row[: each.size] = np.maximum(np.ceil(each / tick_seconds) - 1, 0)
    count = jnp.asarray([each.size for each in own], jnp.int32)
    return Resampled(jnp.asarray(ticks), count, leaving=leaving, tick_seconds=tick_seconds)


@checked
def recorded(
    num_clients: Count, arrivals: str | Path, tick_seconds: Positive = 1.0, leaving: Leaving = "continue"
) -> Recorded:
    """The durations of a training on real nodes, from its `arrivals.parquet`: work takes as long as it took then.

    Clients are those of `clients.parquet`, in its order. Work that begins in a tick takes as long as the client's last
    that began until then. Answers that never came are left out.
    """
    import polars as pl

    path = Path(arrivals)
    try:
        table = pl.read_parquet(path / "arrivals.parquet" if path.is_dir() else path)
        rows = table.filter(pl.col("outcome").is_in(["used", "late", "dropped"])).sort("tick")
        columns = [rows[name].to_numpy() for name in ("place", "tick", "seconds")]
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"durations: {path} is no table of arrivals: {error!s:.200}") from error
    place, begun, seconds = columns
    refuse(place >= num_clients, lambda k: f"durations: row {k} is of client {place[k]}", f"below {num_clients}")
    own = [np.flatnonzero(place == client) for client in range(num_clients)]
    if not all(map(len, own)):
        missing = next(client for client, found in enumerate(own) if not len(found))
        raise ValueError(f"durations: client {missing} has no answer in {path}, so nothing can be played again")
    _check_range("seconds", seconds, 0.0, MAX_TICKS * tick_seconds, "row")
    ticks, starts = np.zeros((2, num_clients, max(map(len, own))), np.int32)
    starts[:] = np.iinfo(np.int32).max
    for client, found in enumerate(own):
        ticks[client, : len(found)] = np.maximum(np.ceil(seconds[found] / tick_seconds) - 1, 0)
        starts[client, : len(found)] = np.floor(begun[found] / tick_seconds)
    counts = jnp.asarray([len(found) for found in own], jnp.int32)
    return Recorded(jnp.asarray(ticks), jnp.asarray(starts), counts, leaving=leaving, tick_seconds=tick_seconds)


def as_durations(value: Durations | int | None, num_clients: int) -> Durations | None:
    """The durations of a world, of which a number stands for the same number of ticks for all."""
    return fixed(num_clients, value) if isinstance(value, int) else value


def _check_range(name: str, values: np.ndarray, lowest: float, highest: float | int, of: str = "client") -> None:
    bad = ~((values >= lowest) & (values <= highest))
    rule = f"must be from {lowest:g} to {highest:,.0f}, so that work ends"
    refuse(bad, lambda k: f"{of} {k} has durations with {name} = {values[k]:g}", rule)
