"""FedDyn: a client's objective is tilted by its own gradient, until all objectives agree (Acar et al. 2021)."""

from __future__ import annotations

import jax.numpy as jnp

from turnout import tree
from turnout.declarations import ClientCount, PositiveScalar
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Words
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Answer, Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, Scalar, View, Work


class Tilted(ClientSide[Params]):
    """Keeps g_k, its gradient where it last ended; steps by q - g_k + a (z - x); then g_k ← g_k - a Δ_k."""

    alpha: Scalar

    @property
    def pull(self) -> Scalar:
        return self.alpha

    def init(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def push(self, kept: Params, shared: None) -> Params:
        return tree.scale(kept, -1.0)

    def keep(self, kept: Params, work: Work, sent: Answer) -> Params:
        return tree.subtract(kept, tree.scale(sent.update, self.alpha))


class FedDyn(Strategy[Words]):
    """w ← w + Σ_{k ∈ R_t} α_k Δ_k / Σ_{k ∈ R_t} α_k - h / a, where h = Σ_k α_k g_k over all clients; a is `alpha`.

    Client k descends f_k(z) - ⟨g_k, z⟩ + a/2 ‖z - x‖², and g_k ← g_k - a Δ_k. Once it gets to the minimum of that, g_k
    is the gradient of f_k where it ended. The server makes the same step for h from the updates alone, so nothing but
    updates is sent. An absent client keeps its g_k, and h holds it.

    If the model rests, all clients end where they begin, their g_k are their gradients there, and h = 0 is the
    gradient of Σ_k α_k F_k: whoever comes how often. -h / a is the sum of all updates ever, so a step is no mean of
    local models, and with few clients at a time it swings.

    Deviation: the target α_k stands where the paper has 1 / N and 1 / |P_t|, with the same a for all clients; the
    authors' code gives a client of few examples a larger one.
    Deviation: evaluated is w; the authors' plots show the mean of the latest local models of all clients.
    Deviation: a round in which nothing arrives leaves w and h.

    Reference: D. A. E. Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021.
    """

    server_memory = "O(N)"
    consistent = "if everybody comes again and again and steps are small"
    references = ("acar2021federated",)
    plain_step = True

    alpha: PositiveScalar = 0.1  # α in the paper
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given

    @property
    def client_side(self) -> Tilted:
        return Tilted(self.alpha)

    def init(self, fleet: Fleet, params: Params) -> Words:
        return Words.empty(fleet, params, keeper="clients")

    def select(self, state: Words, view: View, key: RandomKey) -> tuple[Ask, Words]:
        return ask_uniformly(view, key, self.cohort), state

    def aggregate(
        self, state: Words, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words]:
        alpha, weight = jnp.asarray(self.alpha, jnp.float32), averaged(cohort, "received")
        changes = tree.scale(reports.updates, -alpha)
        words = state.hear(cohort, reports, changes, cohort.take(view.importance)).words
        mean, h = tree.weighted_sum(reports.updates, weight), words.mean(view)
        return Move(weight, tree.subtract(mean, tree.scale(h, 1.0 / alpha))), words
