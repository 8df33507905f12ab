"""FedLaAvg: average the latest gradients of all clients, stale ones included (Yan et al. 2020)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int

from turnout import tree
from turnout.declarations import ClientCount, RoundCount
from turnout.strategies.base import Strategy
from turnout.strategies.last_updates import Words
from turnout.strategies.sampling import largest
from turnout.types import Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View


class FedLaAvgState(eqx.Module):
    """The latest update of every client, and when it came."""

    words: Words
    last: Int[Array, " clients"]  # R, round of the last arrival, -1 before the first


class FedLaAvg(Strategy[FedLaAvgState]):
    """In every round w ← w - γ Σ_k α_k g_k over all clients, where g_k is the gradient that client k sent last.

    Asked are the K available clients that have waited longest. What client k sends is the sum of the gradients of its
    local steps, U_k = -Δ_k / γ_t: with one step the paper's algorithm 1, with C steps its algorithm 2. Until a
    client has come once it counts as zero. The paper's model moves in every round, also when nobody comes: so it does
    here with `moves_when_empty`. By default an empty round leaves it.

    Consistent for any availability, even one that is no random process, if each client is available at least once in
    any E rounds: no gradient used is then older than ⌈N/K⌉ E - 1 rounds, and the error is O(1/√T) with γ ~ 1/√T.
    Rates are neither known nor estimated.

    Deviation: the target α_k stands where the paper has 1 / N, instead of a loss scaled by N n_k / n.
    Deviation: among clients that have waited equally long the choice is random; the paper leaves it open.
    Deviation: a client whose upload is lost counts as still waiting; the paper has no losses.

    Reference: Y. Yan et al., Distributed Non-Convex Optimization with Sublinear Speedup under Intermittent Client
    Availability, 2020.
    """

    server_memory = "O(N · model)"
    consistent = "if absences are bounded and steps small, with work alike for all"
    references = ("yan2020distributed",)

    cohort: ClientCount | None = None  # K, clients asked per round; everyone available if not given
    warmup: RoundCount = 0  # rounds in which gradients are collected while the model stays
    moves_when_empty: bool = eqx.field(static=True, default=False)  # walk what is remembered when nobody comes

    def init(self, fleet: Fleet, params: Params) -> FedLaAvgState:
        return FedLaAvgState(Words.empty(fleet, params), jnp.full(fleet.num_clients, -1, jnp.int32))

    def select(self, state: FedLaAvgState, view: View, key: RandomKey) -> tuple[Ask, FedLaAvgState]:
        if self.cohort is None:
            return Ask.of(view.available, view.target), state
        wait = (view.t - state.last).astype(jnp.float32)
        lot = 0.5 * jr.uniform(key, wait.shape)  # below one, so that it decides between equals only
        return Ask.of(largest(wait + lot, view.available, self.cohort, view.slots), view.target), state

    def aggregate(
        self, state: FedLaAvgState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, FedLaAvgState]:
        said = tree.rows_per_unit(reports.updates, cohort.lr)
        words = state.words.hear(cohort, reports, said, cohort.take(view.importance), view.t).words
        direction = tree.scale(words.mean(view), view.lr)
        moving = jnp.asarray(view.t) >= jnp.asarray(self.warmup, jnp.int32)
        last = jnp.where(cohort.mask, jnp.asarray(view.t, jnp.int32), state.last)
        move = Move(cohort.factors, tree.where(moving, direction, tree.zeros_like(direction)))
        return move, FedLaAvgState(words, last)
