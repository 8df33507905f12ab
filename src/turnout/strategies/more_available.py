"""More available: train on the highly available class alone (Rodio et al. 2023, a baseline)."""

from __future__ import annotations

import jax.numpy as jnp

from turnout.declarations import ShareScalar
from turnout.strategies.base import Strategy
from turnout.types import Ask, RandomKey, View, divide


class MoreAvailable(Strategy[None]):
    """As Unbiased, on the clients with π_k ≥ threshold; the others never count.

    Fast and steady, and biased by design: effective weight α_k on the kept class, zero elsewhere.

    Deviation: the paper does not print the weights; α_k / π_k makes the kept class unbiased within itself.
    """

    needs = ("pi",)
    consistent = "for the kept clients alone"
    title = "More available"
    references = ("rodio2023availability",)

    threshold: ShareScalar = 0.5  # smallest π that is kept

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        wanted = view.available & (view.known.pi >= jnp.asarray(self.threshold, view.known.pi.dtype))
        return Ask.of(wanted, divide(view.target, view.known.pi)), state
