"""Optimal sampling: the longer a client's update, the likelier its upload (Chen, Horváth & Richtárik 2022)."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from turnout.declarations import ClientCount, CountOrZero
from turnout.strategies.base import Strategy
from turnout.types import Array, Cohort, PerSlot, RandomKey, SlotMask, View, divide


class OptimalSampling(Strategy[None]):
    """Direction Σ_{k uploads} (α_k / p_k) Δ_k, where p_k grows with the length α_k ‖Δ_k‖ of the update.

    Every available client trains and reports that length. Then client k uploads with probability p_k, independently of
    the others; the p_k sum to the budget and minimise the variance of the direction. `approximate` finds them from
    sums alone, as secure aggregation allows (AOCS), in a few rounds of messages.

    Unbiased for the sum over the available, so as consistent as FedAvg's `all` is: effective weight α_k π_k, times the
    reach. Saves uploads, not training.

    Reference: W. Chen, S. Horváth and P. Richtárik, Optimal Client Sampling for Federated Learning, TMLR 2022.
    """

    consistent = "if availability, links and work are alike for all"
    title = "Optimal sampling"
    references = ("chen2020optimal",)

    cohort: ClientCount = 10  # m, uploads per round on average
    approximate: bool = eqx.field(static=True, default=False)
    iterations: CountOrZero = eqx.field(static=True, default=4)  # j_max, of the approximation

    def capacity(self, most_available: int) -> int:
        return most_available  # everyone trains; the cohort is who uploads

    def admit(self, state: None, view: View, cohort: Cohort, norms: PerSlot, key: RandomKey) -> Cohort:
        lengths = jnp.where(cohort.uploading, cohort.weight * norms, 0.0)
        budget = jnp.asarray(self.cohort, lengths.dtype)
        if self.approximate:
            chance = approximate_chances(lengths, cohort.uploading, budget, self.iterations)
        else:
            chance = exact_chances(lengths, cohort.uploading, budget)
        lot = cohort.take(jr.uniform(key, (view.num_clients,)))
        return replace(cohort, uploading=cohort.uploading & (lot < chance), weight=divide(cohort.weight, chance))


def exact_chances(lengths: PerSlot, candidates: SlotMask, budget: Array) -> PerSlot:
    """The p that sum to the budget and minimise Σ u² / p, each at most one.

    With u sorted upwards, l is the largest number with 0 < m + l - n ≤ Σ_{j ≤ l} u_j / u_l: the l smallest share
    m + l - n in proportion to u, the others have p = 1.
    """
    count = jnp.sum(candidates, dtype=lengths.dtype)
    budget = jnp.minimum(budget, count)
    order = jnp.argsort(jnp.where(candidates, lengths, jnp.inf))
    place = jnp.arange(1, lengths.shape[0] + 1, dtype=lengths.dtype)  # l
    rising = jnp.where(place <= count, lengths[order], 0.0)
    below = jnp.cumsum(rising)
    left = budget + place - count
    fits = (place <= count) & (left > 0) & (left * rising <= below * (1 + 1e-6))
    last = jnp.max(jnp.where(fits, place, 0.0))
    index = jnp.maximum(last.astype(jnp.int32) - 1, 0)
    # If all updates are zero, all chances are equal.
    total = jnp.broadcast_to(below[index], rising.shape)
    share = jnp.where(total > 0, divide(rising, total), divide(jnp.ones(()), last))
    chance = jnp.where(place <= last, jnp.minimum(share * left[index], 1.0), 1.0)
    return jnp.where(candidates, jnp.zeros_like(lengths).at[order].set(chance), 0.0)


def approximate_chances(lengths: PerSlot, candidates: SlotMask, budget: Array, iterations: int) -> PerSlot:
    """Chances in proportion to u, capped at one; what the cap leaves over is shared out repeatedly (AOCS)."""
    count = jnp.sum(candidates, dtype=lengths.dtype)
    total = jnp.sum(lengths)
    even = jnp.where(candidates, divide(jnp.ones(()), count), 0.0)
    shares = jnp.where(total > 0, divide(lengths, jnp.broadcast_to(total, lengths.shape)), even)
    chance = jnp.minimum(1.0, budget * shares)
    for _ in range(iterations):
        uncapped = candidates & (chance < 1)
        free = budget - count + jnp.sum(uncapped, dtype=lengths.dtype)
        factor = divide(free, jnp.sum(jnp.where(uncapped, chance, 0.0)), otherwise=1.0)
        chance = jnp.where(factor > 1, jnp.minimum(1.0, factor * chance), chance)
    return chance
