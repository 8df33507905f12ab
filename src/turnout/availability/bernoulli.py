"""Independent coin flips: no memory, and clients do not influence each other."""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr

from turnout.availability.base import ErgodicProcess
from turnout.declarations import Count, Shares, checked
from turnout.declarations.arrays import spread_share
from turnout.types import Mask, PerClient, RandomKey, Round


class Bernoulli(ErgodicProcess[tuple[()]]):
    """Each client is available in each round with its own probability, independently of everything else."""

    pi: Shares  # π

    @property
    def num_clients(self) -> int:
        return self.pi.shape[-1]

    def init(self, key: RandomKey) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], t: Round, key: RandomKey) -> tuple[tuple[()], Mask]:
        return state, jr.bernoulli(key, self.pi)

    def stationary(self) -> PerClient:
        return self.pi

    def correlation(self) -> PerClient:
        return jnp.zeros_like(self.pi)


@checked
def bernoulli(num_clients: Count, pi: float | Sequence[float]) -> Bernoulli:
    """Build from the probability of being available, one for all clients or one per client."""
    return Bernoulli(jnp.asarray(spread_share("pi", pi, num_clients)))
