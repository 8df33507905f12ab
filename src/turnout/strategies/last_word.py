"""LastWord: every client counts in every round by its last update per unit of work, old ones less and less."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout import tree
from turnout.declarations import ClientCount, NotNegativeScalar
from turnout.strategies.base import Strategy
from turnout.strategies.memory import Bits, Keeper, check_bits, unpack
from turnout.strategies.sampling import ask_uniformly
from turnout.strategies.words import LastUpdate, Words
from turnout.types import Ask, Cohort, Fleet, Move, Params, PerClient, PerSlot, RandomKey, Reports, View, divide


class LastWordState(eqx.Module):
    """What each client said last, zero before its first word, and the sum over all of them."""

    words: Words  # y_k, by w_k = α_k (l_k + 1)^fading, from the round l_k in which the client was last heard
    reach: PerClient  # ‖a_k‖₁ of the work behind y_k

    @property
    def length(self) -> Float[Array, ""]:
        """The mean reach τ̄ behind all words, under their weights."""
        weight = self.words.weight
        return divide(jnp.sum(weight * self.reach), jnp.sum(weight))


class LastWord(Strategy[LastWordState]):
    """In every round w ← w + η_t τ̄ Σ_k w_k y_k / Σ_k w_k over all clients heard so far; nothing is known or estimated.

    y_k ← Δ_k / (η_t ‖a_k‖₁) when the update of client k arrives: its mean gradient, with opposite sign, whatever its
    rate and however many steps it did. w_k = α_k (l_k + 1)^fading with l_k the round in which it was last heard: an
    entry loses weight by its age against the time that has passed, so that early rounds and long absences do not cling
    to stale updates. With bounded absences w_k / Σ_j w_j tends to α_k. τ̄ = Σ_k w_k ‖a_k‖₁ / Σ_k w_k gives the step the
    length of the usual work. The model moves also when nobody comes; clients not heard yet do not shorten the step.

    Consistent for any availability, links and local work, if absences are short against the run and local optimizers
    linear in the gradients. Who never comes never counts. A client that comes once fades, but only by a power of time.

    An update of no work, with reach or rate zero, says nothing and changes nothing.

    With `memory = "clients"` each client keeps its own y_k and l_k and sends the change of w_k y_k, per unit of its new
    weight: the model is the same, and the server holds one sum, whatever the number of clients, beside two numbers per
    client that follow from who took part.

    With `bits = 8` or 16 the server keeps each y_k in whole numbers of so many bits, a quarter or half of the memory.

    With `blend` a word of less work than usual corrects the one before instead of replacing it:
    y_k ← y_k + θ_k (u_k - y_k) with u_k = Δ_k / (η_t ‖a_k‖₁) and θ_k = min(1, ‖a_k‖₁ / τ̄), since the mean of few
    gradients is noisier than that of many. The first word of a client stands as it is, and so does every word where
    work is equal.

    Reference: this library. With fading 0, equal work and everybody heard it is MIFA.
    """

    server_memory = "O(N · model)"
    consistent = "if everybody comes again and again and steps are small or shrink"
    references = ("gu2021fast", "wang2020tackling")
    moves_alone = True

    fading: NotNegativeScalar = 0.5  # how fast old updates lose weight; 0: never
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given
    memory: Keeper = eqx.field(static=True, default="server")  # who keeps y_k
    bits: Bits = eqx.field(static=True, default=32)  # of each number in the server's memory
    blend: bool = eqx.field(static=True, default=False)  # a word of little work corrects the one before

    def __check_init__(self) -> None:
        check_bits(self.bits, self.memory)
        if self.blend and self.memory == "clients":
            raise ValueError("blend needs memory = 'server': a client does not know the usual work of the others")

    @property
    def client_side(self) -> LastUpdate | None:
        return LastUpdate(self.fading, unit="work") if self.memory == "clients" else None

    def init(self, fleet: Fleet, params: Params) -> LastWordState:
        return LastWordState(Words.empty(fleet, params, self.memory, self.bits), jnp.zeros_like(fleet.importance))

    def select(self, state: LastWordState, view: View, key: RandomKey) -> tuple[Ask, LastWordState]:
        return ask_uniformly(view, key, self.cohort), state

    def aggregate(
        self, state: LastWordState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, LastWordState]:
        spoken = jnp.asarray(view.t, jnp.float32) - cohort.age  # l_k, the round whose model the client speaks about
        weight = cohort.take(view.importance) * (spoken + 1.0) ** jnp.asarray(self.fading, jnp.float32)
        said = reports.updates  # where clients keep y_k: its change
        if self.memory == "server":
            said = tree.rows_per_unit(said, reports.reach * cohort.lr)  # u_k
        if self.blend and state.words.rows is not None:
            said = blend(unpack(cohort.read(state.words.rows)), said, self._trust(state, cohort, reports))
        words, _, heard = state.words.hear(cohort, reports, said, weight, view.t)
        after = LastWordState(words, jnp.where(heard, cohort.put(reports.reach), state.reach))
        step = jnp.asarray(view.lr, jnp.float32) * divide(after.length, jnp.sum(words.weight))  # η_t τ̄ / M
        return Move(cohort.factors, tree.scale(words.total, step)), after

    def _trust(self, state: LastWordState, cohort: Cohort, reports: Reports) -> PerSlot:
        """θ_k: how much of the client's former word a new one of so much work replaces; all of it at the first."""
        usual = jnp.minimum(divide(reports.reach, state.length, otherwise=1.0), 1.0)
        return jnp.where(cohort.take(state.words.weight) > 0, usual, 1.0)


def blend(former: Params, fresh: Params, trust: PerSlot) -> Params:
    """The former rows brought by their share of trust towards the fresh ones; the fresh row alone where trust is 1."""
    mixed = tree.add(former, tree.scale_rows(tree.subtract(fresh, former), trust))
    return tree.where_rows(trust < 1, mixed, fresh)
