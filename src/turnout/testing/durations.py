"""The contract of a law of durations."""

from __future__ import annotations

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.declarations import MAX_RUNS, Numbers, StepCount, checked
from turnout.testing.claims import require, require_close
from turnout.types import Array, RandomKeys, Steps
from turnout.world.durations import MAX_TICKS, Durations

_ROUNDING = 1e-6


Draws = Annotated[int, Numbers(1, MAX_RUNS)]


@checked
def check_durations(durations: Durations, *, steps: StepCount = 5, draws: Draws = 4000) -> None:
    """Raise an AssertionError unless the law keeps its contract.

    It compiles and maps over keys; it answers with one whole number of 0 or more per client, the same for the same key;
    the rows of its law are probabilities that sum to one, and agree with its draws, as do its mean and its shortest
    duration, within sampling error. `steps` are the local steps that every client does.
    """
    count, key = durations.num_clients, jr.key(0)
    work = jnp.full(count, steps, jnp.int32)
    ticks = durations.step(0, work, key)
    require(ticks.shape == (count,), f"step must answer for {count} clients, not {ticks.shape}")
    require(bool(jnp.issubdtype(ticks.dtype, jnp.integer)), f"step must answer with whole numbers, not {ticks.dtype}")
    step = eqx.filter_jit(lambda law, k: law.step(jnp.asarray(0, jnp.int32), work, k))
    require_close(step(durations, key), ticks, "a compiled step must equal a plain one", 0.0)
    played = np.asarray(_draw(durations, work, jr.split(jr.key(1), draws)))
    require(bool((played >= 0).all()), f"work takes no less than 0 ticks beyond the first, not {played.min()}")
    require(bool((played <= MAX_TICKS).all()), f"work must end within {MAX_TICKS:,} ticks, not {played.max():,}")
    shortest = durations.shortest
    require(shortest <= int(played.min()), f"shortest is stated as {shortest}, but work took {played.min()} ticks")
    _check_law(durations, np.asarray(work), played)


@eqx.filter_jit
def _draw(durations: Durations, steps: Steps, keys: RandomKeys) -> Array:
    return jax.vmap(lambda key: durations.step(jnp.asarray(0, jnp.int32), steps, key))(keys)


def _check_law(durations: Durations, steps: np.ndarray, played: np.ndarray) -> None:
    draws, count = played.shape
    law = np.asarray(durations.law(steps), np.float64)
    require(law.ndim == 2 and law.shape[0] == count, f"law must have one row for each of {count} clients")
    require(bool((law >= -_ROUNDING).all()), "law must be probabilities: some are negative")
    require_close(law.sum(axis=1), np.ones(count), "the rows of law must sum to one", _ROUNDING)
    mean = np.asarray(durations.mean(steps), np.float64)
    require_close(mean, law @ np.arange(law.shape[1]), "mean must be that of law", 1e-4)
    within = np.cumsum(law, axis=1)
    for client in range(count):
        most = min(int(played[:, client].max()) + 1, law.shape[1])
        heard = np.cumsum(np.bincount(played[:, client], minlength=most))[:most] / draws
        stated = within[client, :most]
        error = 6 * np.sqrt(stated * (1 - stated).clip(0) / draws) + 2e-3
        for tick in np.flatnonzero(np.abs(heard - stated) > error)[:1]:
            require(
                False,
                f"client {client} is stated to need at most {tick} ticks beyond the first with probability "
                f"{stated[tick]:.4f}, but it did in {heard[tick]:.4f} of the draws",
            )
