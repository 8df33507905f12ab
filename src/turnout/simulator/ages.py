"""How old updates are when a step uses them: sums per client, and how often each age came."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from turnout.types import Cohort, PerClient, PerSlot

EXACT = 64  # ages below have a bin each
PER_DOUBLING = 8  # bins for each doubling of the age beyond
NUM_BINS = EXACT + 8 * PER_DOUBLING
STARTS = np.concatenate([np.arange(EXACT), EXACT * 2 ** (np.arange(NUM_BINS - EXACT) / PER_DOUBLING)])  # least ages


class Ages(eqx.Module):
    """Over all updates that were used so far."""

    used: PerClient  # how many
    age: PerClient  # sum of their ages, in server steps
    waited: PerClient  # sum of the ticks since each client was asked
    bins: Float[Array, " bins"]  # updates by age

    @classmethod
    def empty(cls, num_clients: int) -> Ages:
        zeros = jnp.zeros(num_clients)
        return cls(zeros, zeros, zeros, jnp.zeros(NUM_BINS))

    def add(self, cohort: Cohort) -> Ages:
        """The sums with the updates of a step."""
        return Ages(
            self.used + cohort.mask.astype(jnp.float32),
            self.age + cohort.put(cohort.age),
            self.waited + cohort.put(cohort.waited),
            self.bins.at[_bin_of(cohort.age)].add(cohort.arrived.astype(jnp.float32)),
        )

    def summary(self) -> dict[str, Array]:
        """By client: updates used, their mean age in server steps and the mean ticks from question to use."""
        used = jnp.maximum(self.used, 1.0)
        return {"used": self.used, "age": self.age / used, "waited": self.waited / used}


def _bin_of(age: PerSlot) -> Int[Array, " slots"]:
    beyond = EXACT + jnp.floor(PER_DOUBLING * jnp.log2(jnp.maximum(age, EXACT) / EXACT))
    return jnp.minimum(jnp.where(age < EXACT, age, beyond), NUM_BINS - 1).astype(jnp.int32)


def quantile(bins: np.ndarray, share: float) -> np.ndarray:
    """The smallest age that so many of the updates do not exceed, for each row of bins; NaN where none was used.

    Exact below 64 server steps, and within 9 % above.
    """
    reached = np.cumsum(bins, axis=-1) >= share * bins.sum(axis=-1, keepdims=True)
    return np.where(bins.sum(axis=-1) > 0, STARTS[np.argmax(reached, axis=-1)], np.nan)
