"""SCAFFOLD: local steps are corrected by the gradients that client and fleet had last (Karimireddy et al. 2020)."""

from __future__ import annotations

from turnout import tree
from turnout.declarations import ClientCount
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Words
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Answer, Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View, Work


class ControlVariate(ClientSide[Params]):
    """Keeps c_k, the mean raw gradient of its last work; steps by q - c_k + c; sends Δ_k and the change of c_k."""

    gradients = ("mean",)
    sends_second = True

    def init(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def receives(self, params: Params) -> Params:
        return tree.zeros_like(params)  # c

    def push(self, kept: Params, shared: Params) -> Params:
        return tree.subtract(shared, kept)

    def say(self, kept: Params, work: Work) -> Answer:
        return Answer(work.update, tree.subtract(work.mean_gradient, kept))

    def keep(self, kept: Params, work: Work, sent: Answer) -> Params:
        return tree.add(kept, sent.second)


class SCAFFOLD(Strategy[Words]):
    """w ← w + Σ_{k ∈ R_t} α_k Δ_k / Σ_{k ∈ R_t} α_k, where a local step moves by -η (q - c_k + c).

    c_k is the mean raw gradient q of the client's last work, zero before its first, and c = Σ_k α_k c_k over all
    clients, absent ones included. Every client is sent c beside the model, and sends the change of c_k beside Δ_k. With
    plain SGD at a constant rate this c_k is the paper's option II.

    What pulls a client to its own optimum is taken out of its steps, and what pulls the fleet is put in. So whoever
    comes moves the model along the mean gradient of all, up to how old the c_k are: at the optimum of Σ_k α_k F_k
    nobody moves, whoever comes how often, and whatever the numbers of steps.

    Deviation: the target α_k stands where the paper has 1 / N and 1 / |S|.
    Deviation: c_k is taken from the raw gradients, so that momentum, decay and a proximal term cannot spoil it.
    Deviation: a client whose upload is lost keeps its former c_k, so that c stays the mean of all c_k.

    Reference: S. P. Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020.
    """

    server_memory = "O(N)"
    consistent = "if everybody comes again and again and steps are small"
    references = ("karimireddy2020scaffold",)

    cohort: ClientCount | None = None  # |S|, clients asked per round; everyone available if not given

    @property
    def client_side(self) -> ControlVariate:
        return ControlVariate()

    def init(self, fleet: Fleet, params: Params) -> Words:
        return Words.empty(fleet, params, keeper="clients")

    def select(self, state: Words, view: View, key: RandomKey) -> tuple[Ask, Words]:
        return ask_uniformly(view, key, self.cohort), state

    def shared(self, state: Words, view: View) -> Params:
        return state.mean(view)  # c

    def aggregate(
        self, state: Words, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words]:
        heard = state.hear(cohort, reports, reports.second, cohort.take(view.importance))
        return Move(averaged(cohort, "received")), heard.words
