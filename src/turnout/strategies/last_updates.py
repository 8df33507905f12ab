"""What every client said last: kept on the server, or by each client itself, which then sends what has changed."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from turnout import tree
from turnout.declarations import NotNegativeScalar
from turnout.strategies.client_side import ClientSide
from turnout.strategies.memory_rows import Bits, Keeper, Rows, exchange, rows_of_zeros, sum_rows
from turnout.types import (
    Answer,
    Cohort,
    Fleet,
    Mask,
    Params,
    PerClient,
    PerSlot,
    Reports,
    Round,
    Scalar,
    View,
    Work,
    divide,
)

Amount = Float[Array, "*slots"]  # of one client, or one per slot
Flag = Bool[Array, "*slots"]

NOTHING_SENT = -1.0  # the round of the last upload of a client that has sent none
REFRESHED_AFTER = 1000  # rounds after which a sum is made anew, or as many as there are clients


class Heard(NamedTuple):
    """What a round has changed in the words of the clients."""

    words: Words
    change: Params  # of each slot's word, zero where none was heard
    clients: Mask  # who was heard


class Words(eqx.Module):
    """The last word of every client, zero before its first, and their weighted sum.

    A word is one vector of the model's shape that stands for a client until its next one, such as its last update per
    unit of learning rate. It leaves the sum by the weight with which it came in, whatever its client's weight is now.
    """

    rows: Rows | None  # one model per client; None where each client keeps its own word
    weight: PerClient  # of each word in the sum, zero before the first
    total: Params  # Σ_k weight_k word_k, kept up to date by differences

    @classmethod
    def empty(cls, fleet: Fleet, params: Params, keeper: Keeper = "server", bits: Bits = 32) -> Words:
        rows = rows_of_zeros(fleet, params, bits) if keeper == "server" else None
        return cls(rows, jnp.zeros_like(fleet.importance), tree.zeros_like(params))

    def hear(self, cohort: Cohort, reports: Reports, said: Params, weight: PerSlot, t: Round | None = None) -> Heard:
        """Take in what the cohort has said: words, or their changes where the clients keep them.

        The rule for all memories: an update of no work is no word. Without the round the sum is never made anew.
        """
        cohort = cohort.speaking(reports)
        held = jnp.where(cohort.mask, cohort.put(weight), self.weight)
        now, before = (jnp.where(cohort.arrived, cohort.take(each), 0.0) for each in (held, self.weight))
        if self.rows is None:
            total = tree.add(self.total, tree.weighted_sum(said, now))
            return Heard(Words(None, held, total), said, cohort.mask)
        old, fresh, rows = exchange(self.rows, cohort, said)
        grown = tree.subtract(tree.weighted_sum(fresh, now), tree.weighted_sum(old, before))
        change = tree.where_rows(cohort.arrived, tree.subtract(fresh, old), tree.zeros_like(old))
        words = Words(rows, held, tree.add(self.total, grown))
        return Heard(words if t is None else words._refresh(t), change, cohort.mask)

    def _refresh(self, t: Round) -> Words:
        """The same, with the sum made anew every so many rounds; it differs by rounding only, so gradients pass by.

        Every difference is rounded, and after 100,000 rounds the sum would be off by 1e-5 of itself.
        """
        period = max(REFRESHED_AFTER, self.weight.shape[0])  # so that a round reads one row more at most
        kept = jax.lax.stop_gradient(self)
        drift = jax.lax.cond(
            jnp.mod(jnp.asarray(t, jnp.int32) + 1, period) == 0,
            lambda: tree.subtract(kept.recount().total, kept.total),
            lambda: tree.zeros_like(kept.total),
        )
        return Words(self.rows, self.weight, tree.add(self.total, drift))

    def mean(self, view: View) -> Params:
        """Σ_k α_k word_k over all clients, zero for those not heard yet."""
        return tree.scale(self.total, divide(jnp.ones(()), jnp.sum(view.importance)))

    def has_all(self, view: View) -> Bool[Array, ""]:
        """Whether every client has been heard."""
        return jnp.all((self.weight > 0) | view.vacant)

    def take_back(self, client: Int[Array, ""], said: Answer) -> Words:
        """The same after the goodbye of a client that keeps its own word; said again, or without a word, it is void."""
        total = tree.add(self.total, tree.scale(said.update, self.weight[client]))
        return Words(self.rows, self.weight.at[client].set(0.0), total)

    def recount(self) -> Words:
        """The same with its sum made anew, after rows of clients that have left were reset."""
        return self if self.rows is None else Words(self.rows, self.weight, sum_rows(self.rows, self.weight))


class Sums(eqx.Module):
    """The sum of words (α y, α, α reach) that clients keep themselves and weigh themselves: nothing of one client.

    A word of round l counts by (l + 1)^fading. Clients send changes, so that a word leaves the sum as it came in.
    """

    total: Params  # Σ_k w_k y_k with w_k = α_k (l_k + 1)^fading
    weight: Float[Array, ""]  # Σ_k w_k
    reach: Float[Array, ""]  # Σ_k w_k ‖a_k‖₁

    @classmethod
    def empty(cls, params: Params) -> Sums:
        return cls(tree.zeros_like(params), jnp.zeros(()), jnp.zeros(()))

    def hear(self, reports: Reports, factor: PerSlot) -> tuple[Sums, Float[Array, ""]]:
        """Take in changes, each times (l + 1)^fading of its round, and the α of those that came, in all."""
        assert reports.numbers is not None  # the client side sends them
        weight, reach, _ = jnp.sum(reports.numbers * factor[:, None], axis=0)
        total = tree.add(self.total, tree.weighted_sum(reports.updates, factor))
        return Sums(total, self.weight + weight, self.reach + reach), jnp.sum(reports.numbers[:, 2])

    def take_back(self, client: Int[Array, ""], said: Answer) -> Sums:
        """The same after a goodbye, which counts as it is said: who has said it must not be heard again."""
        assert said.numbers is not None  # the client side sends them
        weight, reach, _ = said.numbers
        return Sums(tree.add(self.total, said.update), self.weight + weight, self.reach + reach)

    def mean(self, view: View) -> Params:
        """Σ_k α_k word_k over all clients, zero for those not heard yet."""
        return tree.scale(self.total, divide(jnp.ones(()), jnp.sum(view.importance)))

    def has_all(self, view: View) -> Bool[Array, ""]:
        """Whether every client has a word in the sum, where none fades."""
        least = jnp.min(jnp.where(view.importance > 0, view.importance, jnp.inf))
        return self.weight > jnp.sum(view.importance) - 0.5 * least


def trust(reach: Amount, usual: Amount, first: Flag) -> Amount:
    """θ: how much of a client's former word one of so much work replaces; all of it at the first."""
    share = jnp.minimum(divide(jnp.asarray(reach), jnp.asarray(usual), otherwise=1.0), 1.0)
    return jnp.where(first, 1.0, share)


def blend(former: Params, fresh: Params, share: Scalar) -> Params:
    """The former word brought by this share of the way to the fresh one; the fresh one alone where that is all."""
    mixed = tree.add(former, tree.scale(tree.subtract(fresh, former), share))
    return tree.where(jnp.asarray(share) < 1, mixed, fresh)


blend_rows = jax.vmap(blend)  # the same for one word per slot


class OwnWord(eqx.Module):
    """What server and client agree on that the client has sent in all."""

    word: Params  # α y, at the weight of its own round
    numbers: Float[Array, "numbers"]  # α and α ‖a‖₁ behind it
    t: Float[Array, ""]  # the round of its last upload that arrived, or NOTHING_SENT


class LastUpdate(ClientSide[OwnWord]):
    """Keeps its word (α y, α, α ‖a‖₁), and sends what has changed: all that a server needs is the sum over clients.

    y is its last update per unit of learning rate, or also of work. `fading`: what was sent in round l counts in round
    t by ((l + 1) / (t + 1))^fading. If it `blends`, an update of less work than the usual, which the server sends,
    corrects the one before instead of replacing it. The third number is α as it is now, for the share that came.
    """

    sends_changes = True
    numbers = ("weight", "reach", "came")

    fading: NotNegativeScalar = 0.0
    unit: Literal["rate", "work"] = eqx.field(static=True, default="rate")
    blends: bool = eqx.field(static=True, default=False)

    def init(self, params: Params) -> OwnWord:
        return OwnWord(tree.zeros_like(params), jnp.zeros(2), jnp.full((), NOTHING_SENT))

    def receives(self, params: Params) -> Float[Array, ""] | None:
        return jnp.zeros(()) if self.blends else None  # the usual work

    def say(self, kept: OwnWord, work: Work) -> Answer:
        unit = work.lr * work.reach if self.unit == "work" else work.lr
        word = tree.per_unit(work.update, unit)
        if self.blends:
            former = tree.per_unit(kept.word, kept.numbers[0])
            word = blend(former, word, trust(work.reach, work.shared, kept.t == NOTHING_SENT))
        alpha = jnp.asarray(work.importance, jnp.float32)
        now = jnp.stack([alpha, alpha * work.reach])
        before = self._fade(kept, work)
        changed = tree.subtract(tree.scale(word, alpha), before.word)
        return Answer(changed, numbers=jnp.append(now - before.numbers, alpha))

    def keep(self, kept: OwnWord, work: Work, sent: Answer) -> OwnWord:
        assert sent.numbers is not None  # of what it has said
        before = self._fade(kept, work)
        return OwnWord(tree.add(before.word, sent.update), before.numbers + sent.numbers[:2], jnp.asarray(work.t))

    def goodbye(self, kept: OwnWord) -> Answer:
        factor = -((kept.t + 1.0) ** jnp.asarray(self.fading, jnp.float32))
        return Answer(tree.scale(kept.word, factor), numbers=jnp.append(kept.numbers * factor, 0.0))

    def _fade(self, kept: OwnWord, work: Work) -> OwnWord:
        """What was sent, as it counts in the round of this work."""
        factor = divide(kept.t + 1.0, work.t + 1.0) ** jnp.asarray(self.fading, jnp.float32)
        return OwnWord(tree.scale(kept.word, factor), kept.numbers * factor, kept.t)
