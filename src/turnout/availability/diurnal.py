"""Clients that follow the day: available mostly at some hours, each in its time zone, and slow to change."""

from collections.abc import Sequence
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float
from scipy.special import i0e

from turnout.availability.base import Process
from turnout.declarations import Count, NotNegative, Numbers, checked
from turnout.declarations.arrays import membership, refuse, spread
from turnout.types import Mask, PerClient, RandomKey, Round, divide

BINS = 1440  # a smooth day is stored by the minute


class Diurnal(Process[Mask]):
    """On/off chains whose chance of being on follows the hour of the client's own day.

    Client k is on in round t with probability m_k(t), exactly. P(on | was on) - P(on | was off) = λ_k, or less where m
    changes too fast for that λ. As m changes with t there is no stationary law.
    """

    shape: Float[Array, " bins"]  # course of the day, from midnight
    level: PerClient  # m = level + swing · shape
    swing: PerClient
    shift: PerClient  # local time at round 0, as a share of the day
    lam: Annotated[PerClient, Numbers(-1, 1)]  # λ
    rounds_per_day: Annotated[int, Numbers(2, 2**31 - 1)] = eqx.field(static=True)

    @property
    def num_clients(self) -> int:
        return self.level.shape[-1]

    def init(self, key: RandomKey) -> Mask:
        return jr.bernoulli(key, self.chance(-1))

    def step(self, state: Mask, t: Round, key: RandomKey) -> tuple[Mask, Mask]:
        before, now = self.chance(t - 1), self.chance(t)
        # The largest λ at which both transition probabilities are still at most 1 and at least 0.
        largest = jnp.minimum(divide(now, before, jnp.inf), divide(1 - now, 1 - before, jnp.inf))
        lam = jnp.minimum(self.lam, largest)
        on = jr.bernoulli(key, now + lam * (state.astype(now.dtype) - before))
        return on, on

    def chance(self, t: Round) -> PerClient:
        """Probability m(t) of each client to be available in round t."""
        bins = self.shape.shape[-1]
        passed = jnp.mod(jnp.asarray(t, jnp.int32), self.rounds_per_day).astype(self.shift.dtype) / self.rounds_per_day
        # The small offset keeps a full hour from being rounded into the hour before.
        position = jnp.floor((passed + self.shift) * bins + 1e-3).astype(jnp.int32)
        return jnp.clip(self.level + self.swing * self.shape[jnp.mod(position, bins)], 0, 1)

    def profile(self) -> Float[Array, "rounds clients"]:
        """M over one day, one row per round."""
        return jax.vmap(self.chance)(jnp.arange(self.rounds_per_day))


@checked
def diurnal(  # noqa: PLR0913 (the keys of a table of availability)
    num_clients: Count,
    rounds_per_day: Annotated[int, Numbers(2, 2**31 - 1)],
    mean: float | Sequence[float] | None = None,
    amplitude: float | Sequence[float] | None = None,
    peak_hour: Annotated[float, Numbers(0, 24)] | None = None,
    sharpness: NotNegative | None = None,
    profile: Sequence[float] | None = None,
    shape: Sequence[float] | None = None,
    zones: int | Sequence[float] = 1,
    lam: float | Sequence[float] = 0.0,
) -> Diurnal:
    """Build from the shape of the day, the time zones and the persistence λ.

    The day is a cosine around `mean` (0.3) that reaches `mean + amplitude` (0.2 above) at `peak_hour` (4). A larger
    `sharpness` (0) narrows the peak and keeps mean and height. Instead of peak and sharpness, `shape` gives the course
    of the day by 24 values in any unit, one per hour; they are shifted and scaled to mean 0 and height 1. Or `profile`
    gives the probability at each of 24 hours. `zones` is a number of zones spread evenly over 24 hours, or the hours by
    which each client is ahead.
    """
    if shape is not None and not (profile is None and peak_hour is None and sharpness is None):
        raise ValueError("shape is given together with peak_hour, sharpness or profile: it replaces these")
    if profile is None:
        smooth = (4.0 if peak_hour is None else peak_hour, 0.0 if sharpness is None else sharpness)
        course = _day(*smooth) if shape is None else _scale(shape)
        level = spread("mean", 0.3 if mean is None else mean, num_clients)
        swing = spread("amplitude", 0.2 if amplitude is None else amplitude, num_clients)
    elif mean is None and amplitude is None and peak_hour is None and sharpness is None:
        course, level, swing = _hours(profile), np.zeros(num_clients), np.ones(num_clients)
    else:
        raise ValueError("profile is given together with mean, amplitude, peak_hour or sharpness: it replaces these")
    _check_range(level, swing, course)
    lams = spread("lam", lam, num_clients)
    refuse(~((lams >= 0) & (lams < 1)), lambda k: f"client {k} has lam = {lams[k]:g}", "must lie in [0, 1)")
    shift = np.mod(_ahead(zones, num_clients), 24) / 24
    return Diurnal(*map(jnp.asarray, (course, level, swing, shift, lams)), rounds_per_day=rounds_per_day)


def _day(peak_hour: float, sharpness: float) -> np.ndarray:
    """A bump of mean 0 and height 1: exp(κ(cos θ - 1)), centred and scaled; a cosine when κ is 0."""
    if not 0 <= sharpness < np.inf:
        raise ValueError(f"sharpness = {sharpness:g}: must be at least 0")
    if not 0 <= peak_hour <= 24:
        raise ValueError(f"peak_hour = {peak_hour:g}: must lie in [0, 24]")
    hours = (np.arange(BINS) + 0.5) * 24 / BINS
    cosine = np.cos(2 * np.pi * (hours - peak_hour) / 24)
    if sharpness < 1e-6:  # the limit, where both numerator and denominator below vanish
        return cosine
    return (np.exp(sharpness * (cosine - 1)) - i0e(sharpness)) / (1 - i0e(sharpness))


def _hours(profile: Sequence[float]) -> np.ndarray:
    if len(profile) != 24:
        raise ValueError(f"profile has {len(profile)} values: give 24, one for each hour from midnight")
    values = np.asarray(profile, dtype=np.float64)
    refuse(~((values >= 0) & (values <= 1)), lambda h: f"hour {h} has {values[h]:g}", "profile must lie in [0, 1]")
    return values


def _scale(shape: Sequence[float]) -> np.ndarray:
    """The course of a day with mean 0 and height 1."""
    if len(shape) != 24:
        raise ValueError(f"shape has {len(shape)} values: give 24, one for each hour from midnight")
    values = np.asarray(shape, dtype=np.float64)
    refuse(~np.isfinite(values), lambda h: f"hour {h} has {values[h]}", "shape must hold finite numbers")
    centred = values - values.mean()
    if centred.max() <= 1e-9 * np.abs(values).max():
        raise ValueError("shape is the same at all hours: for a constant day give amplitude = 0 and no shape")
    return centred / centred.max()


def _check_range(level: np.ndarray, swing: np.ndarray, shape: np.ndarray) -> None:
    ends = np.stack([level + swing * shape.min(), level + swing * shape.max()])
    low, high = ends.min(axis=0), ends.max(axis=0)
    refuse(
        ~((low >= -1e-9) & (high <= 1 + 1e-9)),
        lambda k: f"client {k} would be available with probability {low[k]:.4g} to {high[k]:.4g} over the day",
        "mean and amplitude must keep it in [0, 1]",
    )


def _ahead(zones: int | Sequence[float], num_clients: int) -> np.ndarray:
    if isinstance(zones, int):
        zone = membership("zones", zones, num_clients)
        return zone * (24.0 / zones)
    hours = spread("zones", zones, num_clients)
    refuse(~np.isfinite(hours), lambda k: f"client {k} has zone {hours[k]}", "must be a number of hours")
    return hours
