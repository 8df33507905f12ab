"""A strategy of your own in 25 lines: weigh a client by how long it has been away.

Fields are hyper-parameters, methods are pure, and memory is an explicit state. `check_strategy` checks the contract:
the strategy compiles, stays finite when nobody comes, and does not depend on client numbers.
"""

import equinox as eqx
import jax.numpy as jnp

import turnout
from turnout import availability, strategies, tasks
from turnout.strategies import Strategy
from turnout.testing import check_strategy
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


turnout.use_compilation_cache()  # keep what is compiled for the next run
check_strategy(Patience())

clients = 12
task = tasks.quadratics(num_clients=clients, dimension=4)  # the optimum is known, so the distance to it is, too
world = turnout.World(availability.bernoulli(clients, pi=[0.9] * 6 + [0.1] * 6))
local = turnout.Local(learning_rate=0.01)
compared = {
    "FedAvg": strategies.FedAvg(),
    "Patience, 5 rounds": Patience(limit=5.0),
    "Patience, 100 rounds": Patience(limit=100.0),
    "Unbiased": strategies.Unbiased(),
}
for entry in turnout.audit(world, compared, rounds=2000).entries:
    history = turnout.simulate(task, world, entry.strategy, rounds=400, seeds=3, local=local, evaluate_every=400)
    distance = history.final("distance").mean()
    print(f"{entry.label:20} off target {entry.total_variation:5.1%}, distance to the optimum {distance:.3f}")
print("With a long limit the weights add up to the rounds that were missed: right on average, with no rate known.")
