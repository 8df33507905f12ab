"""What only claims name: strategies that were tried and are not offered, and fleets that nobody comes from."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from turnout import tree
from turnout.availability import two_classes
from turnout.availability.base import Process
from turnout.declarations import Count, CountOrZero, Declared, LengthScalar, NotNegativeScalar, PositiveScalar, checked
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.fedawe import FedAWE, FedAWEState
from turnout.strategies.last_updates import Words, blend_rows
from turnout.strategies.last_word import LastWord, LastWordState
from turnout.strategies.memory_rows import rows_of_zeros
from turnout.types import (
    Cohort,
    Fleet,
    Mask,
    Move,
    Params,
    PerClient,
    PyTree,
    RandomKey,
    Reports,
    Round,
    Scalar,
    View,
    divide,
)


def rows_of(state: LastWordState) -> PyTree:
    """What every client said last, which the server keeps here."""
    assert isinstance(state.words, Words)
    return state.words.rows


class Corrected(Strategy[LastWordState]):
    """LastWord with fresh changes counted more, as FedVARP does: + share · η τ̄ Σ_R α_k (u_k - y_k) / Σ_R α_j.

    With share 1, equal work and no fading it is FedVARP.
    """

    server_memory = "O(N · model)"

    share: Scalar = 1.0
    fading: Scalar = 0.5
    moves_when_empty: bool = eqx.field(static=True, default=True)

    def init(self, fleet: Fleet, params: Params) -> LastWordState:
        return LastWord(self.fading, rule="plain").init(fleet, params)

    def aggregate(
        self, state: LastWordState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, LastWordState]:
        move, after = LastWord(self.fading, rule="plain").aggregate(state, params, view, cohort, reports)
        change = tree.subtract(cohort.read(rows_of(after)), cohort.read(rows_of(state)))
        weight = jnp.where(cohort.arrived, averaged(cohort, "received"), 0.0)
        factor = jnp.asarray(self.share, jnp.float32) * jnp.asarray(view.lr, jnp.float32) * after.length
        more = tree.scale(tree.weighted_sum(change, weight), factor)
        return Move(move.weight, tree.add(move.direction, more)), after


class CompensatedState(eqx.Module):
    """LastWord's state, and the model at which each word was said."""

    last_word: LastWordState
    models: Params


class Compensated(Strategy[CompensatedState]):
    """LastWord with words brought to the present model to first order: y_k - strength · y_k ⊙ y_k ⊙ (w - x_k).

    The square of a gradient stands for its curvature, as in DC-ASGD; x_k is the model at which y_k was said.
    """

    server_memory = "O(N · model)"

    strength: Scalar = 1.0
    fading: Scalar = 0.5
    moves_when_empty: bool = eqx.field(static=True, default=True)

    def init(self, fleet: Fleet, params: Params) -> CompensatedState:
        return CompensatedState(
            LastWord(self.fading, rule="plain").init(fleet, params), tree.repeat(params, fleet.num_clients)
        )

    def aggregate(
        self, state: CompensatedState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, CompensatedState]:
        move, after = LastWord(self.fading, rule="plain").aggregate(state.last_word, params, view, cohort, reports)
        _, models = cohort.swap(state.models, tree.repeat(params, cohort.ids.shape[0]))
        words = after.words
        drift = jax.tree.map(lambda y, x, w: y * y * (w[None] - x), rows_of(after), models, params)
        step = jnp.asarray(view.lr, jnp.float32) * divide(after.length, jnp.sum(words.weight))
        correction = tree.scale(tree.weighted_sum(drift, words.weight), jnp.asarray(self.strength, jnp.float32) * step)
        return Move(move.weight, tree.subtract(move.direction, correction)), CompensatedState(after, models)


class PooledState(eqx.Module):
    """LastWord's state, and the work behind each word."""

    last_word: LastWordState
    work: PerClient  # m_k, in which work of s rounds ago counts keep^s


class Pooled(Strategy[PooledState]):
    """LastWord in which a word is the mean over a client's recent work, that of s rounds ago counted keep^s times.

    m_k ← keep^s m_k + ‖a_k‖₁ with s the rounds since k was last heard, and y_k ← y_k + θ_k (u_k - y_k) with
    θ_k = ‖a_k‖₁ / m_k. Who comes often says the mean of several rounds; who was long away starts anew. With keep 0 it
    is LastWord.
    """

    server_memory = "O(N · model)"

    keep: Scalar = 0.5
    fading: Scalar = 0.5
    moves_when_empty: bool = eqx.field(static=True, default=True)

    def init(self, fleet: Fleet, params: Params) -> PooledState:
        return PooledState(LastWord(self.fading, rule="plain").init(fleet, params), jnp.zeros_like(fleet.importance))

    def aggregate(
        self, state: PooledState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, PooledState]:
        former = state.work * jnp.asarray(self.keep, jnp.float32)
        work = jnp.where(cohort.mask, former + cohort.put(reports.reach), former)
        trust = divide(reports.reach, cohort.take(work), otherwise=1.0)
        effort = reports.reach * jnp.asarray(view.lr, jnp.float32)
        fresh = tree.rows_per_unit(reports.updates, effort)
        word = blend_rows(cohort.read(rows_of(state.last_word)), fresh, trust)
        reports = replace(reports, updates=tree.scale_rows(word, effort))  # from which LastWord reads the word
        move, after = LastWord(self.fading, rule="plain").aggregate(state.last_word, params, view, cohort, reports)
        return move, PooledState(after, work)


class SharedState(eqx.Module):
    """The last word of every group, zero before its first."""

    rows: Params
    weight: Float[Array, " groups"]
    reach: Float[Array, " groups"]


class Shared(Strategy[SharedState]):
    """LastWord with one row per group of clients: the last word of a group is the mean of those that came together.

    Equal groups of neighbours, as `clustered` and `minimum_separation` make them. A group counts by the importance of
    all its clients, so that those of them that did not come are counted as those that did.
    """

    server_memory = "O(groups · model)"

    groups: int = eqx.field(static=True, default=20)
    fading: Scalar = 0.5
    moves_when_empty: bool = eqx.field(static=True, default=True)

    def init(self, fleet: Fleet, params: Params) -> SharedState:
        nothing = jnp.zeros(self.groups)
        return SharedState(rows_of_zeros(Fleet(nothing), params), nothing, nothing)

    def aggregate(
        self, state: SharedState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, SharedState]:
        def by_group(rows: Array, of: Array) -> Array:
            return jax.ops.segment_sum(rows, of, self.groups)

        membership = jnp.arange(view.num_clients) * self.groups // view.num_clients
        of, came = cohort.take(membership), cohort.arrived & (reports.reach > 0)
        share = jnp.where(came, cohort.take(view.importance), 0.0)
        share = divide(share, by_group(share, of)[of])  # within the group
        heard = by_group(came.astype(jnp.float32), of) > 0

        rate = jnp.asarray(view.lr, jnp.float32)
        words = tree.scale_rows(reports.updates, divide(share, rate * reports.reach))
        words = jax.tree.map(lambda rows: by_group(rows, of), words)
        age = (jnp.asarray(view.t, jnp.float32) + 1.0) ** jnp.asarray(self.fading, jnp.float32)
        weight = jnp.where(heard, by_group(view.importance, membership) * age, state.weight)
        reach = jnp.where(heard, by_group(share * reports.reach, of), state.reach)
        rows = tree.where_rows(heard, words, state.rows)
        total, mass = tree.weighted_sum(rows, weight), jnp.sum(weight)
        direction = tree.scale(total, rate * divide(jnp.sum(weight * reach), mass * mass))
        return Move(cohort.factors, direction), SharedState(rows, weight, reach)


class ClippedAWE(Strategy[FedAWEState]):
    """FedAWE as its public code has it: the mean of the echoed updates is cut to a length, and no other is."""

    server_memory = "O(N · model)"
    plain_step = True

    norm: LengthScalar = 0.5

    def init(self, fleet: Fleet, params: Params) -> FedAWEState:
        return FedAWE().init(fleet, params)

    def start(self, state: FedAWEState, params: Params, client: Int[Array, ""]) -> Params:
        return FedAWE().start(state, params, client)

    def aggregate(
        self, state: FedAWEState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, FedAWEState]:
        echo = jnp.where(cohort.arrived, averaged(cohort, "received"), 0.0) * (cohort.take(state.away) + 1.0)
        length = tree.norm(tree.weighted_sum(reports.updates, echo))
        cut = jnp.minimum(1.0, divide(jnp.asarray(self.norm, jnp.float32), length, otherwise=1.0))
        return FedAWE().aggregate(
            state, params, view, cohort, replace(reports, updates=tree.scale(reports.updates, cut))
        )

    def model(self, state: FedAWEState, params: Params) -> Params:
        return FedAWE().model(state, params)


class InverseRoot(Declared):
    """A learning rate of `first` in round 0 that falls with the root of the round."""

    first: NotNegativeScalar
    length: PositiveScalar

    def __call__(self, t: Round) -> Scalar:
        return self.first / jnp.sqrt(1.0 + jnp.asarray(t, jnp.float32) / self.length)


def inverse_root(first: float, length: float = 10.0) -> InverseRoot:
    """The schedule first / √(1 + t / length) of FedAWE's paper."""
    return InverseRoot(first, length)


class Spell(Declared):
    """In the rounds of one spell only so many clients are there, drawn anew in each round."""

    first: Int[Array, ""]  # round of the spell
    rounds: Int[Array, ""]
    left: Int[Array, ""]

    def __call__(self, available: Mask, t: Round, key: RandomKey) -> Mask:
        drawn = jr.permutation(jr.fold_in(key, 1), available.size) < self.left
        since = jnp.asarray(t, jnp.int32) - self.first
        return jnp.where((since >= 0) & (since < self.rounds), drawn, available)


class LateStarts(Declared):
    """Every second client comes from a given round on only."""

    first: Int[Array, ""]

    def __call__(self, available: Mask, t: Round, key: RandomKey) -> Mask:
        early = jnp.arange(available.size) % 2 == 0
        return available & (early | (jnp.asarray(t, jnp.int32) >= self.first))


class Changed(Process[Mask]):
    """Two classes of clients, of whom something keeps some away."""

    usual: Process[Mask]
    change: Spell | LateStarts

    @property
    def num_clients(self) -> int:
        return self.usual.num_clients

    def init(self, key: RandomKey) -> Mask:
        return self.usual.init(key)

    def step(self, state: Mask, t: Round, key: RandomKey) -> tuple[Mask, Mask]:
        state, available = self.usual.step(state, t, key)
        return state, self.change(available, t, key)


@checked
def spell(num_clients: Count, first: CountOrZero, rounds: Count, left: CountOrZero = 0, gap: float = 0.4) -> Changed:
    """Build from the first round of the spell, its length, how many clients are left, and the gap of the classes."""
    change = Spell(*(jnp.asarray(x, jnp.int32) for x in (first, rounds, left)))
    return Changed(two_classes(num_clients, gap=gap), change)


@checked
def late_starts(num_clients: Count, first: CountOrZero, gap: float = 0.4) -> Changed:
    """Build from the round in which the late ones start, and the gap of the classes."""
    return Changed(two_classes(num_clients, gap=gap), LateStarts(jnp.asarray(first, jnp.int32)))
