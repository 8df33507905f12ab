"""A strategy of your own: weigh a client by how long it has been away, up to a limit."""

import equinox as eqx
import jax.numpy as jnp

from turnout.strategies import Strategy
from turnout.types import Ask, Cohort, Fleet, Move, Params, PerClient, RandomKey, Reports, Scalar, View


class PatienceState(eqx.Module):
    away: PerClient  # rounds since the last arrival


class Patience(Strategy[PatienceState]):
    """Direction Σ_{k ∈ R_t} α_k min(away_k + 1, limit) Δ_k."""

    limit: Scalar = 20.0  # longest absence that is corrected for

    def init(self, fleet: Fleet, params: Params) -> PatienceState:
        return PatienceState(jnp.zeros_like(fleet.importance))

    def select(self, state: PatienceState, view: View, key: RandomKey) -> tuple[Ask, PatienceState]:
        return Ask.of(view.available, view.target * jnp.minimum(state.away + 1.0, self.limit)), state

    def aggregate(
        self, state: PatienceState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, PatienceState]:
        return Move(cohort.factors), PatienceState(jnp.where(cohort.mask, 0.0, state.away + 1.0))
