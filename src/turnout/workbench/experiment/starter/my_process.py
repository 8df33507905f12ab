"""An availability process of your own: while a shared network is up, each client answers at its own rate."""

import jax.numpy as jnp
import jax.random as jr

from turnout.availability import ErgodicProcess
from turnout.types import Array, Mask, PerClient, RandomKey, Round, Scalar


class SharedNetwork(ErgodicProcess[Array]):
    """A two-state chain is the network; nobody is available while it is down."""

    rate: PerClient  # of an answer while the network is up
    repair: Scalar  # P(down -> up)
    failure: Scalar  # P(up -> down)

    @property
    def num_clients(self) -> int:
        return self.rate.shape[0]

    @property
    def _up(self) -> Scalar:
        """The share of rounds in which the network is up."""
        return self.repair / (self.repair + self.failure)

    def init(self, key: RandomKey) -> Array:
        return jr.bernoulli(key, self._up)

    def step(self, state: Array, t: Round, key: RandomKey) -> tuple[Array, Mask]:
        of_network, of_clients = jr.split(key)
        up = jr.bernoulli(of_network, jnp.where(state, 1.0 - self.failure, self.repair))
        return up, up & jr.bernoulli(of_clients, self.rate)

    def stationary(self) -> PerClient:
        return self._up * self.rate

    def correlation(self) -> PerClient:
        memory = 1.0 - self.repair - self.failure  # of the network, from one round to the next
        return memory * self.rate * (1.0 - self._up) / (1.0 - self.stationary())


def shared_network(num_clients: int, low: float, high: float, repair: float, failure: float) -> SharedNetwork:
    """What the experiment calls: its arguments are the keys, and it is given `num_clients` by the task."""
    if not 0 < low <= high < 1:
        raise ValueError(f"low = {low}, high = {high}: rates lie between 0 and 1, low ones first")
    rates = jnp.linspace(low, high, num_clients, dtype=jnp.float32)
    return SharedNetwork(rates, jnp.asarray(repair, jnp.float32), jnp.asarray(failure, jnp.float32))
