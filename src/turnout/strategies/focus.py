"""FOCUS: step along everybody's last gradient, kept exact by sending changes (Ying, Li & Yang 2025)."""

from __future__ import annotations

import jax.numpy as jnp

from turnout import tree
from turnout.declarations import ClientCount, PositiveScalar
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Words
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Answer, Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View, Work


class LastGradient(ClientSide[Params]):
    """Keeps g_k, the last raw gradient of its last work; steps by q - g_k; sends the change of g_k, not its update.

    The move after the last gradient changes nothing that is sent, so K gradients make K - 1 moves, as in the paper.
    """

    gradients = ("last",)
    sends_changes = True

    def init(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def push(self, kept: Params, shared: None) -> Params:
        return tree.scale(kept, -1.0)

    def say(self, kept: Params, work: Work) -> Answer:
        return Answer(tree.subtract(work.last_gradient, kept))

    def keep(self, kept: Params, work: Work, sent: Answer) -> Params:
        return tree.add(kept, sent.update)


class FOCUS(Strategy[Words]):
    """w ← w - η_t L Σ_k α_k g_k over all clients, where g_k is the last raw gradient q of client k in its last work.

    A local step moves by -η (q - g_k), and the change of g_k is all that is sent, one vector each way. L is `length`,
    by default N: with equal targets the step is then the paper's, along the sum of the last gradients of all clients.
    FedAvg with K local steps moves along about K mean gradients, so L = K compares the two fairly.

    At the optimum of Σ_k α_k F_k nobody has a change to send and the sum is zero, whoever comes how often and with how
    many steps. The paper proves linear convergence with exact gradients, whatever the participation.

    Deviation: N α_k stands where the paper has 1.
    Deviation: a client whose upload is lost keeps its former g_k; in the paper's code the sum would be wrong for good.
    Deviation: a round in which nothing arrives leaves the model, as in the authors' code.

    Reference: B. Ying, Z. Li and H. Yang, Exact and Linear Convergence for Federated Learning under Arbitrary Client
    Participation is Attainable, NeurIPS 2025.
    """

    server_memory = "O(N)"
    consistent = "if everybody comes again and again and steps are small"
    references = ("ying2025exact",)

    length: PositiveScalar | None = None  # L, mean gradients per round; N if not given
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given

    @property
    def client_side(self) -> LastGradient:
        return LastGradient()

    def init(self, fleet: Fleet, params: Params) -> Words:
        return Words.empty(fleet, params, keeper="clients")

    def select(self, state: Words, view: View, key: RandomKey) -> tuple[Ask, Words]:
        return ask_uniformly(view, key, self.cohort), state

    def aggregate(
        self, state: Words, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words]:
        words = state.hear(cohort, reports, reports.updates, cohort.take(view.importance)).words
        length = jnp.asarray(view.num_members if self.length is None else self.length, jnp.float32)
        step = -jnp.asarray(view.lr, jnp.float32) * length
        return Move(cohort.factors, tree.scale(words.mean(view), step)), words
