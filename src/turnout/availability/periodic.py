"""Clients whose chances follow one course in time that repeats: the non-stationary worlds of Xiang et al. 2024."""

from collections.abc import Sequence
from typing import Annotated, Literal

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from turnout.availability.base import Process
from turnout.declarations import Count, Numbers, checked
from turnout.declarations.arrays import refuse, spread_share
from turnout.types import Mask, PerClient, RandomKey, Round, Scalar

Course = Literal["staircase", "sine"]


class Periodic(Process[tuple[()]]):
    """Client k is available in round t with probability p_k f(t), or never while that is below a cutoff.

    Rounds are independent of one another. The course f repeats after its last value. As the chances change with t there
    is no stationary law.
    """

    rate: PerClient  # p
    course: Float[Array, " period"]  # f
    cutoff: Scalar  # δ

    @property
    def num_clients(self) -> int:
        return self.rate.shape[-1]

    def init(self, key: RandomKey) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], t: Round, key: RandomKey) -> tuple[tuple[()], Mask]:
        return state, jr.bernoulli(key, self.chance(t))

    def chance(self, t: Round) -> PerClient:
        """Probability of each client to be available in round t."""
        course = self.course[jnp.mod(jnp.asarray(t, jnp.int32), self.course.shape[-1])]
        chance = self.rate * course
        return jnp.where(chance >= self.cutoff, chance, 0.0)


@checked
def periodic(
    num_clients: Count,
    rate: float | Sequence[float],
    period: Annotated[int, Numbers(2, 2**31 - 1)] = 20,
    course: Course | Sequence[float] = "sine",
    depth: Annotated[float, Numbers(0, 0.5)] = 0.3,
    cutoff: Annotated[float, Numbers(0, 1)] = 0.0,
) -> Periodic:
    """Build from the rate p, one for all clients or one per client, and the course f of `period` rounds.

    With `depth` γ, "sine" is γ sin(2πt / period) + 1 - γ, and "staircase" is 1 in the first half and 1 - 2γ in the
    second. A list of values is a course of its own, whose length is the period. With a `cutoff` δ a client is away
    while p f(t) < δ, as in the interleaved sine.
    """
    rates = spread_share("rate", rate, num_clients)
    values = _named(course, period, depth) if isinstance(course, str) else np.asarray(course, np.float64)
    refuse(~((values >= 0) & (values <= 1)), lambda t: f"round {t} has {values[t]:g}", "course must lie in [0, 1]")
    return Periodic(*(jnp.asarray(x, jnp.float32) for x in (rates, values, cutoff)))


def _named(course: Course, period: int, depth: float) -> np.ndarray:
    t = np.arange(period)
    if course == "staircase":
        return np.where(t < period / 2, 1.0, 1 - 2 * depth)
    return np.minimum(depth * np.sin(2 * np.pi * t / period) + 1 - depth, 1.0)
