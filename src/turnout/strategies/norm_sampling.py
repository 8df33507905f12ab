"""Norm sampling: draws by the length of the updates (the "OS" of FedACS's paper)."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp

from turnout.declarations import ClientCount
from turnout.strategies.base import Strategy
from turnout.strategies.sampling import with_replacement
from turnout.types import Cohort, PerSlot, RandomKey, View, divide


class NormSampling(Strategy[None]):
    """Direction (1/K) Σ over received draws of (α_k / p_k) Δ_k: K draws with replacement, p_k ∝ ‖Δ_k‖.

    The form of optimal sampling that the FedACS paper compares with (its equation 20); the original draws each client
    at most once, see `OptimalSampling`. Every available client trains; the drawn ones upload.

    Unbiased for the sum over the available when nothing is lost: effective weight α_k π_k (1 - q_k) times the reach.

    Deviation: an absent client cannot be drawn; the paper has everyone available.
    Deviation: a client drawn c times uploads once, and its update counts c times.

    Reference: equation 20 of the paper that proposes FedACS.
    """

    consistent = "if availability, links and work are alike for all"
    title = "Norm sampling"
    references = ("weng2025heterogeneity",)

    cohort: ClientCount = 10  # K, draws per round

    def capacity(self, most_available: int) -> int:
        return max(most_available, int(self.cohort))

    def admit(self, state: None, view: View, cohort: Cohort, norms: PerSlot, key: RandomKey) -> Cohort:
        odds = jnp.where(cohort.uploading, norms, 0.0)
        by_client = jnp.zeros(view.num_clients).at[cohort.ids].set(odds, mode="drop")
        copies = cohort.take(with_replacement(key, by_client, self.cohort, view.slots, view.members))
        chance = divide(odds, jnp.broadcast_to(jnp.sum(odds), odds.shape))
        weight = divide(cohort.weight, chance * jnp.asarray(self.cohort, odds.dtype))
        return replace(cohort, uploading=cohort.uploading & (copies > 0), copies=copies, weight=weight)
