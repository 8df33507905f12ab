"""Clients that take turns on a fixed schedule."""

from collections.abc import Sequence
from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from turnout.availability.base import ErgodicProcess
from turnout.declarations import MAX_COUNT, Count, Counts, Numbers, StepCounts, checked
from turnout.declarations.arrays import membership, refuse, spread_whole
from turnout.types import Mask, PerClient, RandomKey, Round, divide


class Cyclic(ErgodicProcess[tuple[()]]):
    """Client k is available in round t when (t - offset_k) mod period < duration_k.

    Nothing is drawn, and round 0 is always the same. The stationary law and the correlation are averages over a period.
    """

    period: Annotated[Int[Array, ""], Numbers(1, MAX_COUNT)]
    offset: StepCounts  # the round of the period in which a client's turn begins
    duration: Counts  # how many rounds a turn lasts

    @property
    def num_clients(self) -> int:
        return self.offset.shape[-1]

    def init(self, key: RandomKey) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], t: Round, key: RandomKey) -> tuple[tuple[()], Mask]:
        since = jnp.mod(jnp.asarray(t, self.offset.dtype) - self.offset, self.period)
        return state, since < self.duration

    def stationary(self) -> PerClient:
        return self.duration / self.period

    def correlation(self) -> PerClient:
        pi = self.stationary()
        together = (self.duration - 1) / self.period  # P(available now and in the next round)
        return divide(together - pi**2, pi * (1 - pi))


@checked
def cyclic(
    num_clients: Count,
    groups: int | Sequence[int] | None = None,
    turn: Count = 1,
    period: Count | None = None,
    offset: int | Sequence[int] | None = None,
    duration: int | Sequence[int] | None = None,
) -> Cyclic:
    """Build from `groups` that take turns of `turn` rounds, or from `period`, `offset` and `duration` of each client.

    `groups` is a number of equal groups or the group of each client; group 0 comes first.
    """
    if groups is not None and period is None and offset is None and duration is None:
        group = membership("groups", groups, num_clients)
        return _cyclic((int(group.max()) + 1) * turn, group * turn, np.full(num_clients, turn))
    if groups is None and turn == 1 and period is not None and duration is not None:
        starts = spread_whole("offset", 0 if offset is None else offset, num_clients, lowest=0)
        lengths = spread_whole("duration", duration, num_clients, lowest=1)
        return _cyclic(period, starts, lengths)
    raise ValueError("give groups (and turn), or period and duration (and offset), but not both")


def _cyclic(period: int, offset: np.ndarray, duration: np.ndarray) -> Cyclic:
    refuse(offset >= period, lambda k: f"client {k} has offset = {offset[k]}", f"must be below the period {period}")
    refuse(
        duration > period, lambda k: f"client {k} has duration = {duration[k]}", f"must be at most the period {period}"
    )
    return Cyclic(*(jnp.asarray(x, jnp.int32) for x in (period, offset, duration)))
