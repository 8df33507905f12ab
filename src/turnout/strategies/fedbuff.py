"""FedBuff: collect K updates, each about a version of its own, and step along their mean (Nguyen et al. 2022)."""

from __future__ import annotations

import jax.numpy as jnp

from turnout.strategies.base import Strategy
from turnout.strategies.staleness import check_not_negative, num_awaited, polynomial, shares
from turnout.types import Cohort, Fleet, Move, Params, Reports, Scalar, View


class FedBuff(Strategy[None]):
    """w ← w + (1/K) Σ_i s(τ_i) N α_i Δ_i over all that have arrived, s(τ) = (1 + τ)^-exponent.

    τ_i is the age of the update, the server's steps since its client was sent the model, and Δ_i the difference to that
    model. K is what the server waits for, the size of its buffer: pace `Buffered(size=K)`. If more arrive in the same
    tick the step is longer. In rounds and by the clock K is what has arrived.

    A fast client comes more often: the effective weight is α_k times its share of all updates times its mean discount.

    Deviation: N α_i stands where the paper has 1; with equal targets it is the same.
    Deviation: discounts are not divided by that of the mean age, as the authors' code does.

    Reference: J. Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022.
    """

    consistent = "if all clients come equally often, with links and work alike for all"
    references = ("nguyen2022federated",)

    exponent: Scalar = 0.5  # of the discount; 0: none
    oldest: Scalar | None = None  # greatest age that is used; any if not given

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        check_not_negative(exponent=self.exponent, oldest=self.oldest)

    def aggregate(self, state: None, params: Params, view: View, cohort: Cohort, reports: Reports) -> tuple[Move, None]:
        weight = polynomial(cohort.age, self.exponent) * shares(view, cohort, num_awaited(view, cohort))
        if self.oldest is not None:
            weight = jnp.where(cohort.age <= jnp.asarray(self.oldest, jnp.float32), weight, 0.0)
        return Move(weight), state
