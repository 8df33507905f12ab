"""LastWord: every client counts in every round by its last update per unit of work, old ones less and less."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout import tree
from turnout.declarations import ClientCount, NotNegativeScalar
from turnout.strategies.base import Strategy
from turnout.strategies.last_updates import LastUpdate, Sums, Words, blend_rows, trust
from turnout.strategies.memory_rows import Bits, Keeper, check_bits, unpack
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Ask, Cohort, Fleet, Move, Params, PerClient, PerSlot, RandomKey, Reports, View, divide

Rule = Literal["plain", "blend", "all", "news"]

_NOBODY = 1e-6  # share of the weight of all below which a sum of words is rounding: all have left it


class News(eqx.Module):
    """The share of the target A_t that came, over the rounds in which somebody did."""

    share: Float[Array, ""]  # Σ A_t
    squares: Float[Array, ""]  # Σ A_t²
    rounds: Float[Array, ""]

    def add(self, came: Float[Array, ""]) -> News:
        return News(self.share + came, self.squares + came * came, self.rounds + jnp.sign(came))

    def step(self, came: Float[Array, ""]) -> Float[Array, ""]:
        """F = 2 A_t / (A_t + Ā): none where nobody came, 1 where as many did as usual, less than 2 always."""
        by_round, by_arrival = divide(self.share, self.rounds), divide(self.squares, self.share)
        return divide(2.0 * came, came + jnp.maximum(by_round, 0.5 * by_arrival))


class LastWordState(eqx.Module):
    """What each client said last, zero before its first word, and the sum over all of them.

    Where clients keep their own words there is the sum alone, and nothing of one client.
    """

    words: Words | Sums  # y_k, by w_k = α_k (l_k + 1)^fading, from the round l_k in which the client was last heard
    reach: PerClient | None  # ‖a_k‖₁ of the work behind y_k
    length: Float[Array, ""]  # τ̄, the mean reach behind all words, under their weights
    usual: PerClient | None  # τ̄ when the client was last free to be asked
    news: News


class LastWord(Strategy[LastWordState]):
    """w ← w + f η_t τ̄ Σ_k w_k y_k / Σ_j α_j (t + 1)^fading over all clients; nothing is known or estimated.

    Words. u_k = Δ_k / (η_t ‖a_k‖₁) is the mean gradient of client k, with opposite sign, whatever its rate and however
    many steps it did. When it arrives, y_k ← y_k + θ_k (u_k - y_k) with θ_k = min(1, ‖a_k‖₁ / τ̄): a word of less work
    than usual corrects the one before, since the mean of few gradients is noisier. A first word stands as it is.

    Weights. w_k = α_k (l_k + 1)^fading with l_k the round in which k was last heard. A word loses weight by its age
    against the time that has passed, so that early rounds and long absences do not cling to stale updates.

    Steps. τ̄ = Σ_k w_k ‖a_k‖₁ / Σ_k w_k is the length of the usual work. f = 2 A_t / (A_t + Ā) with A_t the share of the
    target that came: little news, a short step, and none where nobody came. Ā is the mean of A_t over the rounds, or
    half of that over the arrivals, Σ A_t² / Σ A_t, if this is more: it takes as many clients to call few of them usual.
    Every step uses all words, so that clients count by the target whatever its length.

    Consistent for any availability, links and local work, if absences are short against the run and local optimizers
    linear in the gradients. Who never comes never counts. A client that comes once fades, but only by a power of time.
    An update of no work, with reach or rate zero, says nothing and changes nothing.

    With `memory = "clients"` each client keeps its own α_k (y_k, 1, ‖a_k‖₁) and l_k, is sent τ̄ when it is asked, and
    sends what has changed; the server holds one sum of these, whatever the number of clients. The model is the same.
    With `bits = 8` or 16 the server keeps y_k in whole numbers of so many bits.

    `rule` takes only the first parts of all this. "plain": θ = f = 1, and the sum is divided by the weight Σ_k w_k of
    those heard, so that clients not heard yet do not shorten the step; old words are used again also when nobody comes.
    "blend": with θ_k, too. "all": divided by the weight of all clients, as if all were fresh. "news": with f.

    Reference: this library. With rule "plain", fading 0, equal work and everybody heard it is MIFA that moves alone.
    """

    server_memory = "O(N · model)"
    consistent = "if everybody comes again and again and steps are small or shrink"
    references = ("gu2021fast", "wang2020tackling")

    fading: NotNegativeScalar = 0.5  # how fast old updates lose weight; 0: never
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given
    memory: Keeper = eqx.field(static=True, default="server")  # who keeps y_k
    bits: Bits = eqx.field(static=True, default=32)  # of each number in the server's memory
    rule: Rule = eqx.field(static=True, default="news")  # how much of the rule, up to this part

    def __check_init__(self) -> None:
        check_bits(self.bits, self.memory)

    @property
    def moves_alone(self) -> bool:
        return not self._has("news")

    @property
    def client_side(self) -> LastUpdate | None:
        return LastUpdate(self.fading, unit="work", blends=self._has("blend")) if self.memory == "clients" else None

    def init(self, fleet: Fleet, params: Params) -> LastWordState:
        none = jnp.zeros(())
        news = News(none, none, none)
        if self.memory == "clients":
            return LastWordState(Sums.empty(params), None, none, None, news)
        words, nobody = Words.empty(fleet, params, bits=self.bits), jnp.zeros_like(fleet.importance)
        return LastWordState(words, nobody, none, nobody, news)

    def select(self, state: LastWordState, view: View, key: RandomKey) -> tuple[Ask, LastWordState]:
        ask = ask_uniformly(view, key, self.cohort)
        if state.usual is None:
            return ask, state
        usual = jnp.where(view.available, state.length, state.usual)  # who is at work keeps that of its start
        return ask, replace(state, usual=usual)

    def shared(self, state: LastWordState, view: View) -> Float[Array, ""] | None:
        return state.length if self.memory == "clients" and self._has("blend") else None

    def aggregate(
        self, state: LastWordState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, LastWordState]:
        fading, now = jnp.asarray(self.fading, jnp.float32), jnp.asarray(view.t, jnp.float32)
        spoken = (now - cohort.age + 1.0) ** fading  # by l_k, the round whose model the client speaks about
        everybody = jnp.sum(view.importance)
        fresh = everybody * (now + 1.0) ** fading  # the weight of all, were all heard now
        if isinstance(state.words, Sums):
            words, came = state.words.hear(reports, spoken)
            heard, total, came = words.weight, words.reach, divide(came, everybody)
            reach, news = None, state.news.add(came)
            heard = jnp.where(heard > _NOBODY * fresh, heard, 0.0)
        else:
            words, reach, came = self._hear(state, state.words, view, cohort, reports, spoken)
            heard, total, news = jnp.sum(words.weight), jnp.sum(words.weight * reach), state.news.add(came)
        length = divide(total, heard)
        mass = fresh if self._has("all") else heard
        step = jnp.asarray(view.lr, jnp.float32) * divide(length, mass)  # η_t τ̄ / M
        factor = news.step(came) if self._has("news") else jnp.ones(())  # f
        after = LastWordState(words, reach, length, state.usual, news)
        return Move(cohort.factors, tree.scale(words.total, factor * step)), after

    def _hear(
        self, state: LastWordState, words: Words, view: View, cohort: Cohort, reports: Reports, spoken: PerSlot
    ) -> tuple[Words, PerClient, Float[Array, ""]]:
        """The memory of the server with what the cohort has said, the reach behind it, and A_t."""
        assert state.reach is not None  # where the server keeps the words
        assert state.usual is not None  # as there
        said = tree.rows_per_unit(reports.updates, reports.reach * cohort.lr)  # u_k
        if self._has("blend"):
            first = cohort.take(words.weight) == 0
            theta = trust(reports.reach, cohort.take(state.usual), first)
            said = blend_rows(unpack(cohort.read(words.rows)), said, theta)
        words, _, heard = words.hear(cohort, reports, said, cohort.take(view.importance) * spoken, view.t)
        reach = jnp.where(heard, cohort.put(reports.reach), state.reach)
        return words, reach, jnp.sum(jnp.where(heard, view.target, 0.0))

    def _has(self, part: Rule) -> bool:
        parts = get_args(Rule)
        return parts.index(self.rule) >= parts.index(part)
