"""ACE: at every arrival a step along the last updates of all clients (Chang et al. 2025)."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.strategies.last_updates import LastUpdate, Sums, Words
from turnout.strategies.memory_rows import Keeper, sum_rows
from turnout.strategies.staleness import check_not_negative, num_arrived, num_awaited
from turnout.types import Cohort, Fleet, Move, Params, PerClient, Reports, Scalar, View, divide


class ACEState(eqx.Module):
    """What each client said last, and about which version of the model."""

    words: Words | Sums
    version: PerClient  # l_k, that the client was sent


class ACE(Strategy[ACEState]):
    """w ← w + (M/K) η_t Σ_k α_k u_k over the last updates of all clients, u_k = Δ_k / η_k; M have arrived just now.

    K is what the server waits for: with `Buffered(size=1)` every arrival is a step, and M arrivals in one tick are M
    steps at once. In rounds and by the clock M = K. The model stays where it is while nothing arrives. η_k is the rate
    with which client k was asked.

    With `newest_within` (ACED) only words about a version at most so many steps old count:
    w ← w + (M/K) η_t Σ_k α_k u_k / Σ_k α_k over these, and no step if there are none.

    Without waiting a word is zero until its client comes. With `wait` the model stays until all have come once. With
    `memory = "clients"` each client keeps its own word and sends what has changed; the server keeps the sum alone.

    Consistent if ages are small against the change of the model. A step per arrival is N steps per visit of all
    clients: the rate must be smaller than with a step per K arrivals.

    Deviation: α_k stands where the paper has 1 / N.
    Deviation: the paper begins when all clients have sent an update about the first model; here `wait` stays until all
    have, and is off by default.

    Reference: X. Chang et al., Mitigating Participation Imbalance Bias in Asynchronous Federated Learning, 2025.
    """

    server_memory = "O(N · model)"
    consistent = "if steps are small or shrink, with work alike for all"
    references = ("chang2025mitigating",)

    newest_within: Scalar | None = None  # τ_algo, greatest age of a word that counts; any if not given
    wait: bool = eqx.field(static=True, default=False)  # stay until every client has come once
    memory: Keeper = eqx.field(static=True, default="server")  # who keeps the words

    def __check_init__(self) -> None:
        if self.newest_within is not None and self.memory == "clients":
            raise ValueError("newest_within needs memory = 'server': of what clients keep the server has the sum alone")

    @property
    def client_side(self) -> LastUpdate | None:
        return LastUpdate() if self.memory == "clients" else None

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        check_not_negative(newest_within=self.newest_within)

    def init(self, fleet: Fleet, params: Params) -> ACEState:
        words = Sums.empty(params) if self.memory == "clients" else Words.empty(fleet, params)
        return ACEState(words, jnp.zeros_like(fleet.importance))

    def aggregate(
        self, state: ACEState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, ACEState]:
        if isinstance(state.words, Sums):
            after = replace(state, words=state.words.hear(reports, jnp.ones_like(reports.reach))[0])
        else:
            said = tree.rows_per_unit(reports.updates, cohort.lr)
            words, _, heard = state.words.hear(cohort, reports, said, cohort.take(view.importance), view.t)
            spoken = cohort.put(jnp.asarray(view.t, jnp.float32) - cohort.age)
            after = ACEState(words, jnp.where(heard, spoken, state.version))
        steps = num_arrived(cohort) / num_awaited(view, cohort)
        direction = tree.scale(self._mean(after, view), jnp.asarray(view.lr, jnp.float32) * steps)
        if self.wait:
            direction = tree.where(after.words.has_all(view), direction, tree.zeros_like(direction))
        return Move(cohort.factors, direction), after

    def _mean(self, state: ACEState, view: View) -> Params:
        words = state.words
        if self.newest_within is None or isinstance(words, Sums) or words.rows is None:
            return words.mean(view)
        age = jnp.asarray(view.t, jnp.float32) - state.version
        weight = jnp.where(age <= jnp.asarray(self.newest_within, jnp.float32), words.weight, 0.0)
        return tree.scale(sum_rows(words.rows, weight), divide(jnp.ones(()), jnp.sum(weight)))
