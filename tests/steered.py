"""A strategy that uses all of the client's side: tests of the seam take it where no shipped strategy is steered."""

from jaxtyping import PyTree

from turnout import tree
from turnout.strategies import Strategy
from turnout.strategies.averaging import averaged
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Words
from turnout.types import Answer, Cohort, Fleet, Move, Params, Reports, Scalar, View, Work


class Corrected(ClientSide[PyTree]):
    """Steps by q + μ (z - x) + c - c_k; sends Δ_k and the change of c_k, the mean of its raw gradients."""

    gradients = ("mean", "last")
    sends_second = True

    mu: Scalar

    @property
    def pull(self) -> Scalar:
        return self.mu

    def init(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def receives(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def push(self, kept: Params, shared: Params) -> Params:
        return tree.subtract(shared, kept)

    def say(self, kept: Params, work: Work) -> Answer:
        halves = tree.scale(tree.add(work.mean_gradient, work.last_gradient), 0.5)
        return Answer(work.update, tree.subtract(halves, kept))

    def keep(self, kept: Params, work: Work, sent: Answer) -> Params:
        return tree.add(kept, sent.second)


class Steered(Strategy[Words]):
    """w ← w + Σ_R α_k Δ_k / Σ_R α_k, c = Σ_k α_k c_k sent beside the model; c_k between mean and last gradient.

    Nobody's algorithm: it is here to use every hook.
    """

    server_memory = "O(N)"

    mu: Scalar = 0.1

    @property
    def client_side(self) -> Corrected:
        return Corrected(self.mu)

    def init(self, fleet: Fleet, params: Params) -> Words:
        return Words.empty(fleet, params, keeper="clients")

    def shared(self, state: Words, view: View) -> Params:
        return state.mean(view)

    def aggregate(
        self, state: Words, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words]:
        heard = state.hear(cohort, reports, reports.second, cohort.take(view.importance))
        return Move(averaged(cohort, "received")), heard.words
