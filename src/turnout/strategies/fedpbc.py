"""FedPBC: everybody trains in every round; who gets through is averaged, and told the average (Xiang et al. 2023)."""

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


class FedPBCState(eqx.Module):
    """The model that each client holds."""

    models: Params  # x, one model per client
    importance: PerClient  # of the fleet, for the model to evaluate


class FedPBC(Strategy[FedPBCState]):
    """x_k ← x_k + η_g Δ_k for all who train; the mean of those that arrive goes back to them: x_k ← w for k ∈ R_t.

    Client k starts from its own x_k. If its upload is lost it goes on from there in the next round, and what it did is
    in what it sends later. w = Σ_{k ∈ R_t} α_k x_k / Σ_{k ∈ R_t} α_k is sent at the end of the round, to those heard
    only. Evaluated is Σ_k α_k x_k over all clients: averaging among those heard does not change it, so it moves by
    every client's updates in every round, whatever the links. If nothing arrives the clients drift on.

    Made for links that fail while everybody works. A client that is absent does not work here, and what it does not do
    nobody makes up for; `FedAWE` is this with an echo for the rounds that were missed.

    Only in simulations: the server holds what each client would, and needs the updates that are lost.

    Deviation: the target α_k stands where the paper has 1 / N and 1 / |A_t|.
    Deviation: where work takes time, work whose answer is lost is lost: its client keeps the model that it had.

    Reference: M. Xiang, S. Ioannidis, E. Yeh, C. Joe-Wong and L. Su, Towards Bias Correction of FedAvg over Nonuniform
    and Time-Varying Communications, 2023.
    """

    server_memory = "O(N · model)"
    consistent = "if availability and work are alike for all and steps are small, whatever the links"
    references = ("xiang2023towards",)
    needs = ("lost",)
    plain_step = True

    own_rate: NotNegativeScalar = 1.0  # η_g of the authors' code, on each client's own step

    def init(self, fleet: Fleet, params: Params) -> FedPBCState:
        return FedPBCState(tree.repeat(params, fleet.num_clients), fleet.importance)

    def start(self, state: FedPBCState, params: Params, client: Int[Array, ""]) -> Params:
        return jax.tree.map(lambda held: held.at[client].get(mode="clip"), state.models)

    def aggregate(
        self, state: FedPBCState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, FedPBCState]:
        held = cohort.read(state.models)
        done = reports.updates if reports.lost is None else tree.add(reports.updates, reports.lost)
        own = tree.add(held, tree.scale(done, self.own_rate))
        share = jnp.where(cohort.arrived, averaged(cohort, "received"), 0.0)
        mean = tree.where(jnp.any(cohort.arrived), tree.weighted_sum(own, share), params)
        after = tree.where_rows(cohort.arrived, tree.repeat(mean, cohort.ids.shape[0]), own)
        models = cohort.write(state.models, held, after, cohort.trained)
        weight = share * jnp.asarray(self.own_rate, jnp.float32)
        return Move(weight, tree.subtract(mean, params)), FedPBCState(models, state.importance)

    def model(self, state: FedPBCState, params: Params) -> Params:
        return tree.weighted_sum(state.models, Fleet(state.importance).target)
