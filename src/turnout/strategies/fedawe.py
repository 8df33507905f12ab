"""FedAWE: clients keep their own model and compensate for the rounds they missed (Xiang et al. 2024)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout import tree
from turnout.declarations import NotNegativeScalar
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.types import Cohort, Fleet, Move, Params, PerClient, Reports, View


class FedAWEState(eqx.Module):
    """The model that each client holds, and how long it has held it."""

    models: Params  # x, one model per client
    away: PerClient  # t - τ - 1, rounds missed since the last participation
    importance: PerClient  # of the fleet, for the model to evaluate


class FedAWE(Strategy[FedAWEState]):
    """Average of x_k + η_g (t - τ_k) Δ_k over the clients that come, which becomes their new x_k.

    Client k starts from the model x_k that it received in round τ_k, not from the server's; its update is echoed once
    for every round since. The server's model is Σ_{k ∈ R_t} α_k x_k⁺ / Σ_{k ∈ R_t} α_k. Evaluated is Σ_k α_k x_k over
    all clients: averaging among the clients that came does not change it, and the echo moves it by every client's
    updates at the same long-run rate, however rarely the client comes. In an empty round nothing changes.

    Consistent for availability that differs between clients and changes over time, if the probability to come is
    bounded away from zero; rates are neither known nor estimated. A long absence makes one long step.

    Deviation: the target α_k stands where the paper has 1 / N and 1 / |A_t|.
    Deviation: a client whose upload is lost keeps its model and goes on counting missed rounds.
    Deviation: the authors' code clips the aggregate to norm 0.5, which is not part of the algorithm and left out.

    Reference: M. Xiang, S. Ioannidis, E. Yeh, C. Joe-Wong and L. Su, Efficient Federated Learning against Heterogeneous
    and Non-stationary Client Unavailability, NeurIPS 2024.
    """

    server_memory = "O(N · model)"
    consistent = "if everybody comes again and again, with work alike for all"
    references = ("xiang2024efficient",)
    plain_step = True

    echo_rate: NotNegativeScalar = 1.0  # η_g

    def init(self, fleet: Fleet, params: Params) -> FedAWEState:
        return FedAWEState(tree.repeat(params, fleet.num_clients), jnp.zeros_like(fleet.importance), fleet.importance)

    def start(self, state: FedAWEState, params: Params, client: Int[Array, ""]) -> Params:
        return jax.tree.map(lambda held: held.at[client].get(mode="clip"), state.models)

    def aggregate(
        self, state: FedAWEState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, FedAWEState]:
        share = jnp.where(cohort.arrived, averaged(cohort, "received"), 0.0)
        weight = share * ((cohort.take(state.away) + 1.0) * jnp.asarray(self.echo_rate, jnp.float32))
        held = tree.weighted_sum(jax.tree.map(cohort.take, state.models), share)
        direction = tree.subtract(tree.add(held, tree.weighted_sum(reports.updates, weight)), params)
        _, models = cohort.swap(state.models, tree.repeat(tree.add(params, direction), cohort.ids.shape[0]))
        away = jnp.where(cohort.mask, 0.0, state.away + 1.0)
        return Move(weight, direction), FedAWEState(models, away, state.importance)

    def model(self, state: FedAWEState, params: Params) -> Params:
        return tree.weighted_sum(state.models, Fleet(state.importance).target)
