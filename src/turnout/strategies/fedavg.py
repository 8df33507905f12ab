"""FedAvg under partial availability: average whatever comes back (McMahan et al. 2017)."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from turnout.strategies.base import Strategy
from turnout.strategies.sampling import check_cohort, with_replacement, without_replacement
from turnout.types import Ask, Cohort, Fleet, PerSlot, RandomKey, Scalar, View, divide

Normaliser = Literal["received", "all", "draws"]


class FedAvg(Strategy[None]):
    """Average of the updates that arrive, by one of the three divisors in use.

    - `received`: Σ_R α_k Δ_k / Σ_R α_k, the usual code: the step keeps its length, whoever comes.
    - `all`: Σ_R α_k Δ_k, a fixed divisor over the whole fleet: the step shrinks with the cohort.
    - `draws`: (1/K) Σ Δ over K draws with replacement by α; what is lost counts as zero.

    None of them is consistent when availability differs between clients: the model leans to those who come most. The
    effective weights are E[α_k 1_k / Σ_j α_j 1_j], α_k π_k, and α_k (1 - q_k) ‖a_k‖₁ with everybody available.
    """

    consistent = "if availability, links and work are alike for all, for 'received' with equal targets"
    references = ("mcmahan2017communication",)

    cohort: Scalar | None = None  # K, clients asked a round; everyone available if not given
    normaliser: Normaliser = eqx.field(static=True, default="received")

    def __check_init__(self) -> None:
        if self.normaliser not in ("received", "all", "draws"):
            raise ValueError(f"normaliser must be 'received', 'all' or 'draws', not {self.normaliser!r}")
        if self.normaliser == "draws" and self.cohort is None:
            raise ValueError("normaliser = 'draws' needs cohort, the number of draws a round")

    def capacity(self, most_available: int) -> int:
        return most_available if self.cohort is None else int(self.cohort)

    def check(self, fleet: Fleet) -> None:
        check_cohort(self.cohort, fleet)

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        if self.cohort is None:
            return Ask.of(view.available, view.target), state
        if self.normaliser == "draws":
            odds = jnp.where(view.available, view.target, 0.0)
            copies = with_replacement(key, odds, self.cohort, view.slots)
            share = divide(jnp.ones(()), jnp.asarray(self.cohort, copies.dtype))
            return Ask(copies, jnp.full_like(copies, share), jnp.ones_like(copies)), state
        wanted = without_replacement(key, view.available, self.cohort, view.slots)
        return Ask.of(wanted, view.target), state

    def weigh(self, state: None, view: View, cohort: Cohort) -> PerSlot:
        weight = cohort.weight * cohort.copies
        if self.normaliser != "received":
            return weight
        received = jnp.sum(jnp.where(cohort.arrived, weight, 0.0))
        return divide(weight, jnp.broadcast_to(received, weight.shape))
