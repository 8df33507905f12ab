"""AdaFed: inverse-availability weights, normalised over the available clients (Tan et al. 2022, full participation)."""

from __future__ import annotations

import jax.numpy as jnp

from turnout.strategies.base import Strategy
from turnout.types import Ask, RandomKey, View, divide


class AdaFed(Strategy[None]):
    """Direction Σ_{k ∈ A_t} q_k Δ_k with q_k = (α_k / π_k) / Σ_{j ∈ A_t} α_j / π_j.

    The step has the same length in every round, which makes training steady. In exchange the effective weights
    E[q_k 1_k] are not exactly the target: a client that is often alone counts more.
    """

    needs = ("pi",)
    consistent = "if availability, links and work are alike for all and targets equal"
    references = ("tan2022adafed",)

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        raw = jnp.where(view.available, divide(view.target, view.known.pi), 0.0)
        return Ask.of(view.available, divide(raw, jnp.broadcast_to(jnp.sum(raw), raw.shape))), state
