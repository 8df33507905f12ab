"""StaleFill: a lost update is replaced by the client's last upload (the "FedVarp" of FedACS's paper)."""

from __future__ import annotations

import equinox as eqx

from turnout import tree
from turnout.declarations import ClientCount
from turnout.strategies.base import Strategy
from turnout.strategies.memory_rows import rows_of_zeros
from turnout.strategies.sampling import ask_by_odds
from turnout.types import Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View


class StaleFill(Strategy[Params]):
    """w ← w + (η_t / K) ( Σ_{drawn, received} u_k + Σ_{drawn, lost} y_k ), u_k = Δ_k / η_t; then y_k ← u_k if received.

    K clients are drawn with replacement by α; y_k is the last update of client k that arrived, zero before the first.
    The baseline that the FedACS paper calls FedVarp (its equation 114). It has none of FedVARP's correction.

    Once every client has had an arrival, an old update stands for a lost one. This takes the loss probabilities out of
    the effective weights, which become α_k ‖a_k‖₁. Unequal numbers of steps still count.

    By default a round in which every upload was lost leaves the model; with `moves_when_empty` the old updates stand
    for those, too, as in the equation.

    Deviation: an absent client cannot be drawn; draws are made among the available, so unequal availability biases.
    Deviation: a client drawn c times trains once and counts c times.

    Reference: equation 114 of the paper that proposes FedACS.
    """

    server_memory = "O(N · model)"
    consistent = "if availability and work are alike for all"
    references = ("weng2025heterogeneity",)

    cohort: ClientCount = 10  # K, draws per round
    moves_when_empty: bool = eqx.field(static=True, default=False)  # walk what is remembered when nobody comes

    def init(self, fleet: Fleet, params: Params) -> Params:
        return rows_of_zeros(fleet, params)

    def select(self, state: Params, view: View, key: RandomKey) -> tuple[Ask, Params]:
        return ask_by_odds(view, key, self.cohort, view.target), state

    def aggregate(
        self, state: Params, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Params]:
        fresh, spoke = tree.rows_per_unit(reports.updates, cohort.lr), cohort.speaking(reports)
        stale, memory = spoke.swap(state, fresh)
        used = tree.where_rows(spoke.arrived, fresh, stale)
        return Move(cohort.factors, tree.scale(tree.weighted_sum(used, cohort.factors), view.lr)), memory
