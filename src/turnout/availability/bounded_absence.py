"""Clients that are never away for long."""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr

from turnout.availability.base import ErgodicProcess
from turnout.declarations import Count, Counts, Shares, checked
from turnout.declarations.arrays import spread_share, spread_whole
from turnout.types import Mask, PerClient, RandomKey, Round, Steps, divide


class BoundedAbsence(ErgodicProcess[Steps]):
    """Each client comes with its own probability, and with certainty after E - 1 rounds of absence in a row.

    So it is available at least once in any E consecutive rounds. Gaps G between its rounds are independent, with
    P(G > j) = (1 - p)^j for j < E and 0 from E on: a renewal process. The state counts the rounds since it last came.
    """

    chance: Shares  # p, of coming unforced
    within: Counts  # E

    @property
    def num_clients(self) -> int:
        return self.chance.shape[-1]

    def init(self, key: RandomKey) -> Steps:
        # The stationary age is j < E with probability ∝ (1 - p)^j; drawn by the inverse of its distribution function.
        share = jr.uniform(key, self.chance.shape, self.chance.dtype)
        age = divide(jnp.log1p(-share * self._comes_in_time()), jnp.log1p(-self.chance))
        age = jnp.where(self.chance > 0, age, share * self.within.astype(share.dtype))  # p = 0: all equally likely
        return jnp.clip(jnp.floor(age).astype(self.within.dtype), 0, self.within - 1)

    def step(self, state: Steps, t: Round, key: RandomKey) -> tuple[Steps, Mask]:
        on = jr.bernoulli(key, self.chance) | (state >= self.within - 1)
        return jnp.where(on, 0, state + 1), on

    def stationary(self) -> PerClient:
        """One over the mean gap, Σ_{j<E} (1 - p)^j."""
        free = (self.chance > 0) & (self.within > 1)
        return jnp.where(free, divide(self.chance, self._comes_in_time()), 1 / self.within.astype(self.chance.dtype))

    def correlation(self) -> PerClient:
        pi = self.stationary()
        return divide(self.chance - pi, 1 - pi)  # p = P(G = 1), unless π is 1

    def _comes_in_time(self) -> PerClient:
        """1 - (1 - p)^E, the probability to come unforced within E rounds."""
        return -jnp.expm1(self.within.astype(self.chance.dtype) * jnp.log1p(-self.chance))


@checked
def bounded_absence(num_clients: Count, chance: float | Sequence[float], within: int | Sequence[int]) -> BoundedAbsence:
    """Build from the probability p of coming unforced and the number E of rounds within which a client must come."""
    p = spread_share("chance", chance, num_clients)
    rounds = spread_whole("within", within, num_clients, lowest=1)
    return BoundedAbsence(jnp.asarray(p), jnp.asarray(rounds))
