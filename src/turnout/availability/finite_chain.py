"""Any finite Markov chain over sets of available clients: the general model of the CA-Fed papers."""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from turnout.availability.base import ErgodicProcess
from turnout.availability.mathematics.transition import require_irreducible, stationary_law, stochastic
from turnout.declarations import Count, checked
from turnout.declarations.arrays import refuse
from turnout.types import Mask, PerClient, RandomKey, Round


class FiniteChain(ErgodicProcess[Int[Array, ""]]):
    """One chain decides for the whole fleet: every state is a set of available clients."""

    transition: Float[Array, "states states"]  # P
    masks: Bool[Array, "states clients"]  # who is available in each state
    law: Float[Array, " states"]  # stationary law of the chain
    rate: PerClient  # π, exact, computed when the chain is built
    memory: PerClient  # lag-one autocorrelation, likewise

    @property
    def num_clients(self) -> int:
        return self.masks.shape[-1]

    def init(self, key: RandomKey) -> Int[Array, ""]:
        return jr.categorical(key, jnp.log(self.law)).astype(jnp.int32)

    def step(self, state: Int[Array, ""], t: Round, key: RandomKey) -> tuple[Int[Array, ""], Mask]:
        after = jr.categorical(key, jnp.log(self.transition[state])).astype(jnp.int32)
        return after, self.masks[after]

    def stationary(self) -> PerClient:
        return self.rate

    def correlation(self) -> PerClient:
        return self.memory


@checked
def finite_chain(
    num_clients: Count, transition: Sequence[Sequence[float]], masks: Sequence[Sequence[int]]
) -> FiniteChain:
    """Build from the transition matrix and, for each state, a row of N zeros and ones: who is available in it.

    The chain must be irreducible, so that there is a single long-run law; it may be periodic.
    """
    matrix = stochastic(_square(transition))
    require_irreducible(matrix)
    table = _table(masks, len(matrix), num_clients)
    law = stationary_law(matrix)
    on = table.astype(np.float64)
    rate = law @ on
    together = law @ (on * (matrix @ on))  # P(available now and in the next round)
    spread = rate * (1 - rate)
    constant = table.all(axis=0) | ~table.any(axis=0)
    memory = np.where(constant, 0.0, (together - rate**2) / np.where(constant, 1.0, spread))
    return FiniteChain(*map(jnp.asarray, (matrix, table, law, rate, memory)))


def _square(transition: Sequence[Sequence[float]]) -> np.ndarray:
    lengths = [len(row) for row in transition]
    if not lengths or any(length != len(lengths) for length in lengths):
        raise ValueError(f"transition has rows of {lengths} entries: must be square, one row and one column per state")
    return np.asarray(transition, dtype=np.float64)


def _table(masks: Sequence[Sequence[int]], num_states: int, num_clients: int) -> np.ndarray:
    if len(masks) != num_states:
        raise ValueError(f"masks has {len(masks)} rows for {num_states} states: give one row per state")
    lengths = np.array([len(row) for row in masks])
    refuse(
        lengths != num_clients,
        lambda s: f"masks row {s} has {lengths[s]} entries",
        f"must have one for each of the {num_clients} clients",
    )
    table = np.asarray(masks)
    refuse(
        np.sum(~np.isin(table, (0, 1)), axis=1) > 0,
        lambda s: f"masks row {s} is {table[s].tolist()}",
        "must hold only 0 and 1",
    )
    return table.astype(bool)
