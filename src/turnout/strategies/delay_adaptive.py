"""Delay-adaptive steps: an update that is older than usual counts less (Koloskova et al. 2022)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout.strategies.base import Strategy
from turnout.strategies.staleness import Number, check_positive, num_arrived, num_awaited, shares
from turnout.types import Cohort, Fleet, Move, Params, Reports, Scalar, View, divide


class AgesSoFar(eqx.Module):
    """Of all updates that were used."""

    total: Number
    count: Number

    def after(self, cohort: Cohort) -> AgesSoFar:
        total = jnp.sum(jnp.where(cohort.arrived, cohort.age, 0.0))
        return AgesSoFar(self.total + total, self.count + num_arrived(cohort))


class DelayAdaptive(Strategy[AgesSoFar]):
    """w ← w + (1/K) Σ_i min(1, τ_C / τ_i) N α_i Δ_i over all that have arrived, τ_i the age of the update.

    τ_C is the usual age, in the paper the number of clients at work: where a step uses K updates, that number over K.
    If it is not given, the mean age of all updates so far is taken. An old update then moves the model no further than
    it is safe to, and a few very old ones do not force a small rate on all others. K is the size of the buffer, or what
    has arrived in rounds and by the clock.

    Slow clients come rarely and count less when they come: this is a rule for stability, not for fairness.

    Deviation: N α_i stands where the paper has 1; with equal targets it is the same.
    Deviation: beyond τ_C the paper's step is below min(η, 1 / (4 L τ_i)), with L the smoothness; that is rarely known,
    and η τ_C / τ_i stands in its place, as in public code.

    Reference: A. Koloskova, S. Stich and M. Jaggi, Sharper Convergence Guarantees for Asynchronous SGD for Distributed
    and Federated Learning, NeurIPS 2022.
    """

    consistent = "if all clients come equally often, with links and work alike for all"
    title = "Delay-adaptive steps"
    references = ("koloskova2022sharper",)

    usual_age: Scalar | None = None  # τ_C; the mean age so far if not given

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        check_positive(usual_age=self.usual_age)

    def init(self, fleet: Fleet, params: Params) -> AgesSoFar:
        return AgesSoFar(jnp.zeros(()), jnp.zeros(()))

    def aggregate(
        self, state: AgesSoFar, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, AgesSoFar]:
        after = state.after(cohort)
        given = self.usual_age
        usual = divide(after.total, after.count) if given is None else jnp.asarray(given, jnp.float32)
        trust = jnp.minimum(divide(usual, cohort.age, otherwise=1.0), 1.0)
        return Move(trust * shares(view, cohort, num_awaited(view, cohort))), after
