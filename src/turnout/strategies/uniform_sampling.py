"""Uniform sampling: a cohort drawn uniformly, scaled up to stand for all available clients."""

from __future__ import annotations

import jax.numpy as jnp

from turnout.declarations import ClientCount
from turnout.strategies.base import Strategy
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Ask, RandomKey, View, divide


class UniformSampling(Strategy[None]):
    """Direction (|A_t| / |S_t|) Σ_{k ∈ R_t} α_k Δ_k, where S_t is drawn from A_t uniformly, without replacement.

    Unbiased for Σ_{k ∈ A_t} α_k Δ_k if nothing is lost: effective weight α_k π_k (1 - q_k), times the reach. Unlike
    FedAvg's `received`, a large client counts fully whenever it is drawn.

    Deviation: |A_t| stands where the FedACS paper has all M clients, which are always there.
    Deviation: the divisor is the number sampled. The paper's equation 19 divides by the number received, which does not
    give its own expectation, equation 24.

    Reference: the "US" of the FedACS paper (Weng et al. 2025).
    """

    consistent = "if availability, links and work are alike for all"
    title = "Uniform sampling"
    references = ("weng2025heterogeneity",)

    cohort: ClientCount = 10  # clients asked per round

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        ask = ask_uniformly(view, key, self.cohort)
        available, asked = jnp.sum(view.available, dtype=jnp.float32), jnp.sum(ask.copies)
        return Ask(ask.copies, ask.weight * divide(available, asked), ask.scale), state
