"""Clients that must rest: after taking part, a client waits a number of rounds before it can be drawn again.

Here nature has it so. A server that leaves its clients alone for some rounds has a setting for that, `rest`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from turnout.availability.base import ErgodicProcess, Process
from turnout.availability.mathematics.conditional_poisson import (
    draw_by_product,
    draw_successively,
    inclusion_probabilities,
)
from turnout.declarations import Count, Numbers, checked
from turnout.declarations.arrays import membership, refuse, spread, spread_whole
from turnout.types import Mask, PerClient, RandomKey, Round, divide

PerUnit = Float[Array, " units"]
LogWeights = Annotated[PerUnit, Numbers(infinite=True)]
Wait = Int[Array, " units"]  # rounds until a unit may be drawn again
Sampling = Literal["product", "successive"]


class MinimumSeparation(ErgodicProcess[Wait]):
    """Each round draws a batch of B rested units with probability ∝ the product of its weights; it then rests R rounds.

    A unit is a client, or a group of clients that comes as one. In the long run R+1 consecutive batches together are
    a conditional Poisson sample of B(R+1) units in random order; both the stationary law and `init` come from that.
    """

    log_weight: LogWeights  # log p
    separation: Annotated[Int[Array, ""], Numbers(0)]  # R
    unit: Int[Array, " clients"]  # the unit of each client
    rate: PerClient  # π_R, computed in double precision when the process is built
    batch: Count = eqx.field(static=True)  # B, in units

    @property
    def num_clients(self) -> int:
        return self.unit.shape[-1]

    def init(self, key: RandomKey) -> Wait:
        window_key, order_key = jr.split(key)
        size = self.batch * (self.separation + 1)
        window = draw_by_product(window_key, self.log_weight, size)
        # Ranks of the window's units in random order; the batch of age R+1 is out of the window and may be drawn again.
        place = jnp.where(window, jr.uniform(order_key, window.shape), jnp.inf)
        ranks = jnp.arange(window.shape[0], dtype=self.separation.dtype)
        rank = jnp.zeros_like(ranks).at[jnp.argsort(place)].set(ranks)
        return jnp.where(window, rank // self.batch, 0)

    def step(self, state: Wait, t: Round, key: RandomKey) -> tuple[Wait, Mask]:
        drawn = draw(key, self.log_weight, state, self.batch, "product")
        return jnp.where(drawn, self.separation, jnp.maximum(state - 1, 0)), drawn[self.unit]

    def stationary(self) -> PerClient:
        return self.rate

    def correlation(self) -> PerClient:
        never_twice = divide(-self.rate, 1 - self.rate)
        return jnp.where(self.separation > 0, never_twice, jnp.zeros_like(self.rate))


class SeparatedSampling(Process[Wait]):
    """Like `MinimumSeparation`, where no closed form is known: unequal rests, or several units drawn one by one.

    If fewer than B units are rested, all of them are drawn. The state before round 0 comes from a run-in that starts
    with a fully rested fleet and lasts twice the longest rest. It is near the stationary law, but not exact.
    """

    log_weight: LogWeights  # log p
    separation: Annotated[Wait, Numbers(0)]  # R_i
    unit: Int[Array, " clients"]
    batch: Count = eqx.field(static=True)
    sampling: Sampling = eqx.field(static=True)

    @property
    def num_clients(self) -> int:
        return self.unit.shape[-1]

    def init(self, key: RandomKey) -> Wait:
        def play(t: Int[Array, ""], wait: Wait) -> Wait:
            return self.step(wait, t, jr.fold_in(key, t))[0]

        return jax.lax.fori_loop(0, 2 * (jnp.max(self.separation) + 1), play, jnp.zeros_like(self.separation))

    def step(self, state: Wait, t: Round, key: RandomKey) -> tuple[Wait, Mask]:
        drawn = draw(key, self.log_weight, state, self.batch, self.sampling)
        return jnp.where(drawn, self.separation, jnp.maximum(state - 1, 0)), drawn[self.unit]


def draw(key: RandomKey, log_weight: PerUnit, wait: Wait, batch: int, sampling: Sampling) -> Bool[Array, " units"]:
    """Draw up to `batch` units among the rested ones."""
    rested = jnp.where(wait == 0, log_weight, -jnp.inf)
    if batch == 1 or sampling == "successive":  # for a single unit both have the same law
        return draw_successively(key, rested, batch)
    size = jnp.minimum(jnp.sum(wait == 0, dtype=jnp.int32), batch)
    return draw_by_product(key, rested, size)


@checked
def minimum_separation(
    num_clients: Count,
    weights: float | Sequence[float] | None = None,
    batch: Count = 1,
    separation: int | Sequence[int] = 0,
    groups: int | Sequence[int] | None = None,
    sampling: Sampling = "product",
    tail: float | None = None,
) -> MinimumSeparation | SeparatedSampling:
    """Build from the weights p, the batch B and the separation R, one for all or one per client.

    With `groups` (a number of equal ones, or the group of each client) whole groups are drawn: weights and separations
    are then per group and the batch counts groups. Instead of `weights`, `tail` = a gives p_i ∝ i^-a, i = 1, 2, …
    The result has a stationary law if there is one common R, and the product form or batches of one.
    """
    grouped = groups is not None
    unit = membership("groups", groups, num_clients) if grouped else np.arange(num_clients, dtype=np.int32)
    count, of = int(unit.max()) + 1, "group" if grouped else "client"
    if batch > count:
        raise ValueError(f"batch = {batch} with {count} {of}s: must be at most {count}")
    if sampling not in ("product", "successive"):
        raise ValueError(f'sampling = "{sampling}": must be "product" or "successive"')
    p = _weights(weights, tail, count, of)
    rests = spread_whole("separation", separation, count, lowest=0, of=of)
    log_weight, unit_of = jnp.asarray(np.log(p)), jnp.asarray(unit)
    if np.ptp(rests) > 0:
        return SeparatedSampling(log_weight, jnp.asarray(rests), unit_of, batch, sampling)
    common = int(rests[0])
    if batch * (common + 1) > count:
        raise ValueError(
            f"separation = {common} with batch = {batch} and {count} {of}s: every round needs a full batch of rested "
            f"ones, so at most {count // batch - 1} (N/B - 1)"
        )
    if batch > 1 and sampling == "successive":
        return SeparatedSampling(log_weight, jnp.asarray(rests), unit_of, batch, sampling)
    rate = inclusion_probabilities(p, batch * (common + 1)) / (common + 1)
    return MinimumSeparation(log_weight, jnp.asarray(common, jnp.int32), unit_of, jnp.asarray(rate[unit]), batch)


def _weights(weights: float | Sequence[float] | None, tail: float | None, count: int, of: str) -> np.ndarray:
    if weights is not None and tail is not None:
        raise ValueError(f"weights and tail = {tail:g} are both given: give one of the two")
    p = np.arange(1, count + 1) ** -float(tail or 0) if weights is None else spread("weights", weights, count, of)
    refuse(
        ~((p > 0) & np.isfinite(p)),
        lambda i: f"{of} {i} has weight {p[i]:g}",
        f"must be positive and finite; leave out {of}s that never come",
    )
    return p / p.sum()
