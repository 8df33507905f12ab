"""CA²FL: a buffer of updates, corrected by what every client said last (Wang et al. 2024)."""

from __future__ import annotations

import jax.numpy as jnp

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.strategies.last_updates import Words
from turnout.strategies.staleness import num_arrived, shares
from turnout.types import Cohort, Fleet, Move, Params, Reports, View, divide


class CA2FL(Strategy[Words]):
    """w ← w + η_t ( Σ_k α_k h_k + (1/M) Σ_{i arrived} N α_i (u_i - h_i) ), u_i = Δ_i / η_i; then h_i ← u_i.

    h_k is what client k sent last before this step, zero before its first; M updates have arrived, and η_i is the rate
    with which client i was asked. Pace `Buffered(size=M)`. An update of no work changes nothing.

    As FedVARP it is the correction of SAGA, with old starts and without its division by the targets of what arrived.
    While the memory is wrong the correction favours the clients that come often; it vanishes as the memory becomes
    right, and every client then counts by α_k.

    Deviation: α_k stands where the paper has 1 / N, and N α_i / M where it has 1 / M; with equal targets both agree.
    Deviation: updates are remembered per unit of the rate of their start; at a constant rate it is the same.
    Deviation: M is what has arrived, also if more than the buffer's size arrive in one tick.

    Reference: Y. Wang, Y. Cao, J. Wu, R. Chen and J. Chen, Tackling the Data Heterogeneity in Asynchronous Federated
    Learning with Cached Update Calibration, ICLR 2024.
    """

    server_memory = "O(N · model)"
    consistent = "at the end of training, with work alike for all"
    title = "CA²FL"
    references = ("wang2024tackling",)

    def init(self, fleet: Fleet, params: Params) -> Words:
        return Words.empty(fleet, params)

    def aggregate(
        self, state: Words, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words]:
        said = tree.rows_per_unit(reports.updates, cohort.lr)
        heard = state.hear(cohort, reports, said, cohort.take(view.importance), view.t)
        weight = shares(view, cohort, 1.0) * divide(jnp.ones(()), num_arrived(cohort))
        direction = tree.add(state.mean(view), tree.weighted_sum(heard.change, weight))
        return Move(weight, tree.scale(direction, view.lr)), heard.words
