"""Clients that come and go together: one two-state chain per cluster."""

from collections.abc import Sequence
from typing import Annotated

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float

from turnout.availability.base import ErgodicProcess
from turnout.availability.markov import check_switches, switching_rates
from turnout.declarations import Count, Numbers, StepCounts, checked
from turnout.declarations.arrays import membership, spread
from turnout.types import Mask, PerClient, RandomKey, Round

Switches = Annotated[Float[Array, " clusters"], Numbers(0, 1)]
PerCluster = Float[Array, " clusters"]
Awake = Bool[Array, " clusters"]


class Clustered(ErgodicProcess[Awake]):
    """All clients of a cluster are available at once or not at all; clusters are independent of each other."""

    cluster: StepCounts  # c(k), the cluster of client k
    wake: Switches  # P(off -> on) of the cluster's chain
    sleep: Switches  # P(on -> off)

    def __check_init__(self) -> None:
        check_switches(self.wake, self.sleep, "cluster")

    @property
    def num_clients(self) -> int:
        return self.cluster.shape[-1]

    def init(self, key: RandomKey) -> Awake:
        return jr.bernoulli(key, self.wake / (self.wake + self.sleep))

    def step(self, state: Awake, t: Round, key: RandomKey) -> tuple[Awake, Mask]:
        awake = jr.bernoulli(key, jnp.where(state, 1 - self.sleep, self.wake))
        return awake, awake[self.cluster]

    def stationary(self) -> PerClient:
        return (self.wake / (self.wake + self.sleep))[self.cluster]

    def correlation(self) -> PerClient:
        return (1 - self.wake - self.sleep)[self.cluster]


@checked
def clustered(
    num_clients: Count, clusters: int | Sequence[int], pi: float | Sequence[float], lam: float | Sequence[float] = 0.0
) -> Clustered:
    """Build from the number of equal clusters or the cluster of each client, and π and λ of each cluster."""
    cluster = membership("clusters", clusters, num_clients)
    count = int(cluster.max()) + 1
    rates = switching_rates(spread("pi", pi, count, "cluster"), spread("lam", lam, count, "cluster"), "cluster")
    return Clustered(jnp.asarray(cluster), *map(jnp.asarray, rates))
