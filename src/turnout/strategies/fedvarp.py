"""FedVARP: the latest updates of all clients, corrected by what has just changed (Jhunjhunwala et al. 2022)."""

from __future__ import annotations

import equinox as eqx

from turnout import tree
from turnout.declarations import ClientCount
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.last_updates import Words
from turnout.strategies.memory_rows import Bits
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View


class FedVARP(Strategy[Words]):
    """w ← w + η_t ( Σ_{k ∈ R_t} α_k (u_k - y_k) / Σ_{j ∈ R_t} α_j + Σ_k α_k y_k ), u_k = Δ_k / η_t; then y_k ← u_k.

    The second sum runs over all clients and holds what each sent last, before this round. The correction, as in SAGA,
    weighs fresh updates fully, so that the direction is unbiased when all clients come equally often, and vanishes as
    the remembered updates become right: partial participation then adds no variance.

    Assumes a cohort drawn uniformly. With unequal availability the correction favours clients that come more often, but
    shrinks as training converges, so that the fixed point stays that of Σ_k α_k F_k.

    Deviation: the target α_k, renormalised over what arrived, stands where the paper has 1 / |S_t| and 1 / N.
    Deviation: updates are remembered per unit of learning rate, as in the paper; public code remembers Δ itself,
    which is wrong as soon as the rate changes. Numbers of steps are not divided out.
    Deviation: a round in which nothing arrives leaves the model, as in public code, though Σ_k α_k y_k could be
    applied.

    Reference: D. Jhunjhunwala, P. Sharma, A. Nagarkatti and G. Joshi, FedVARP: Tackling the Variance Due to Partial
    Client Participation in Federated Learning, UAI 2022.
    """

    server_memory = "O(N · model)"
    consistent = "at the end of training, with work alike for all"
    references = ("jhunjhunwala2022fedvarp",)

    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given
    bits: Bits = eqx.field(static=True, default=32)  # of each number in the server's memory

    def init(self, fleet: Fleet, params: Params) -> Words:
        return Words.empty(fleet, params, bits=self.bits)

    def select(self, state: Words, view: View, key: RandomKey) -> tuple[Ask, Words]:
        return ask_uniformly(view, key, self.cohort), state

    def aggregate(
        self, state: Words, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words]:
        said = tree.rows_per_unit(reports.updates, cohort.lr)
        heard = state.hear(cohort, reports, said, cohort.take(view.importance), view.t)
        weight = averaged(cohort, "received")
        correction = tree.weighted_sum(heard.change, weight)
        return Move(weight, tree.scale(tree.add(correction, state.mean(view)), view.lr)), heard.words
