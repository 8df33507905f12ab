"""AREA: the model is the mean of the models with which all clients ended last (Iakovidou and Kim 2024)."""

from __future__ import annotations

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.types import Cohort, Fleet, Move, Params, Reports, View


class AREA(Strategy[Params]):
    """w ← w + Σ_{i arrived} α_i (w_i - y_i), then y_i ← w_i: so that w = Σ_k α_k y_k over all clients at any time.

    w_i is the model with which client i ended, and y_i the one with which it had ended before; every y_k begins as the
    first model. Pace `Buffered(size=K)`, or any other: a step is the same whether clients arrive together or in turn.

    Whoever is slow holds the model back by its old y_k, and its updates move it on as often as it comes: both cancel,
    and every client counts by α_k, however rarely it comes. An update moves the model by α_i alone, so the mean age of
    the y_k sets the pace, and local rates may be larger than with a buffer. An update of no work leaves y_i.

    Deviation: α_k stands where the paper has 1 / N; its first author's code instead multiplies local rates by N α_k.
    Deviation: the server holds y_k, where the paper's clients do, who send w_i - y_i: the model is the same.

    Reference: C. Iakovidou and K. Kim, Asynchronous Federated Stochastic Optimization for Heterogeneous Objectives
    Under Arbitrary Delays, 2024.
    """

    server_memory = "O(N · model)"
    consistent = "if everybody comes again and again, with work alike for all"
    references = ("iakovidou2024asynchronous",)
    needs = ("starts",)
    plain_step = True

    def init(self, fleet: Fleet, params: Params) -> Params:
        return tree.repeat(params, fleet.num_clients)

    def aggregate(
        self, state: Params, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Params]:
        ended = tree.add(reports.starts, reports.updates)
        _, models = cohort.speaking(reports).swap(state, ended)
        # The sum over all, and not what has changed: rounding does not pile up, and nobody who has left stays in it.
        return Move(cohort.factors, tree.subtract(tree.weighted_sum(models, view.target), params)), models
