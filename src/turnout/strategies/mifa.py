"""MIFA: every client counts in every round, by the update it sent last (Gu et al. 2021)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.strategies.last_updates import LastUpdate, Sums, Words
from turnout.strategies.memory_rows import Bits, Keeper, check_bits
from turnout.types import Cohort, Fleet, Move, Params, Reports, View


class MIFA(Strategy[Words | Sums]):
    """In every round w ← w - η_t Σ_k α_k G_k over all clients, where G_k = -Δ_k / η is what client k sent last.

    Everyone available trains, and its entry of the table is replaced, normalised by the learning rate it was made with.
    The paper's model moves in every round, also when nobody comes: so it does here with `moves_when_empty`. By default
    an empty round leaves it, since a night of steps along old updates walks it away. Without waiting an entry is zero
    until its client comes. With `wait` the model stays until every client has come once. With `memory = "clients"` each
    client keeps its own entry and sends what has changed: the model is the same, and the server's memory is one model.
    With `bits = 8` or 16 the server's table has whole numbers of so many bits.

    Consistent for any availability in which absences are short against the change of the model; rates are neither known
    nor estimated. Needs a falling learning rate, η_0 / (t + 1) in the paper, and short absences where updates are
    noisy: a stale entry repeats its noise in every round.

    Deviation: the target α_k stands where the paper has 1 / N.
    Deviation: the authors' code, once all have been seen, has all clients run at w_0 in one round, which needs everyone
    at once. Here the table is what each sent on its latest visit while the model waited at w_0: the same in law.

    Reference: X. Gu, K. Huang, J. Zhang and L. Huang, Fast Federated Learning in the Presence of Arbitrary Device
    Unavailability, NeurIPS 2021.
    """

    server_memory = "O(N · model)"
    consistent = "if steps are small or shrink, with work alike for all"
    references = ("gu2021fast",)

    wait: bool = eqx.field(static=True, default=False)  # stay until every client has come once
    memory: Keeper = eqx.field(static=True, default="server")  # who keeps the table
    bits: Bits = eqx.field(static=True, default=32)  # of each number in the server's table
    moves_when_empty: bool = eqx.field(static=True, default=False)  # walk what is remembered when nobody comes

    def __check_init__(self) -> None:
        check_bits(self.bits, self.memory)

    @property
    def client_side(self) -> LastUpdate | None:
        return LastUpdate() if self.memory == "clients" else None

    def init(self, fleet: Fleet, params: Params) -> Words | Sums:
        if self.memory == "clients":
            return Sums.empty(params)
        return Words.empty(fleet, params, self.memory, self.bits)

    def aggregate(
        self, state: Words | Sums, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Words | Sums]:
        if isinstance(state, Sums):
            words, _ = state.hear(reports, jnp.ones_like(reports.reach))
        else:
            said = tree.rows_per_unit(reports.updates, cohort.lr)
            words = state.hear(cohort, reports, said, cohort.take(view.importance), view.t).words
        direction = tree.scale(words.mean(view), view.lr)
        if self.wait:
            direction = tree.where(words.has_all(view), direction, tree.zeros_like(direction))
        return Move(cohort.factors, direction), words
