"""What the server knows of its clients: the truth (`Oracle`), or estimates so far (`Online`)."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from turnout.availability.base import Process
from turnout.declarations import CountOrZero, Declared, NotNegativeScalar
from turnout.streams import Stream, round_key
from turnout.types import Cohort, Fleet, Known, Mask, PerClient, PyTree, RandomKey, Reports, Round, Scalar, View, divide

State = TypeVar("State")


class Facts(Declared, Generic[State]):
    """A source of π, λ, link success and reach; it observes once, at the end of a round.

    So what a strategy reads never depends on the present round. Real nodes fit in too, known only at its end.
    """

    example: ClassVar[str] = "Oracle()"

    @abc.abstractmethod
    def init(self, fleet: Fleet) -> State:
        """State before round 0; per-client parts have the clients as leading axis."""

    @abc.abstractmethod
    def read(self, state: State, truth: Known | None) -> Known:
        """The facts that a strategy gets in this round; only an oracle reads the truth."""

    @abc.abstractmethod
    def observe(self, state: State, view: View, cohort: Cohort, reports: Reports) -> State:
        """State after the observations of a finished round."""

    @property
    def rounds_watched(self) -> int:
        """Number of rounds before round 0 in which the server has watched availability."""
        return 0

    def watch(
        self,
        state: State,
        available: Mask,
        watched: Mask | None = None,
        span: Scalar | None = None,
        listed: Mask | None = None,
    ) -> State:
        """State after a round with these clients available, also before round 0; arguments as in `View`."""
        return state

    def open(self, state: State) -> State:
        """The state at the start of round 0, which need not follow the last watched round."""
        return state

    def watch_past(self, state: State, process: Process[PyTree], root: RandomKey) -> State:
        """State of a server that has watched the availability for some rounds before round 0.

        That past is a run of the same process with its own random stream. Its length does not change the later rounds,
        so strategies with and without a past meet the same absences.
        """
        if self.rounds_watched == 0:
            return state
        key = round_key(root, Stream.PAST)

        def step(carry: tuple[PyTree, State], t: Round) -> tuple[tuple[PyTree, State], None]:
            process_state, available = process.step(carry[0], t, jr.fold_in(key, t + 1))
            return (process_state, self.watch(carry[1], available)), None

        start = (process.init(jr.fold_in(key, 0)), state)
        (_, state), _ = jax.lax.scan(step, start, jnp.arange(self.rounds_watched))
        return self.open(state)


class Oracle(Facts[None]):
    """The true values, as most papers assume them."""

    def init(self, fleet: Fleet) -> None:
        return None

    def read(self, state: None, truth: Known | None) -> Known:
        if truth is None:
            raise ValueError("an Oracle needs the truth, which a real fleet does not have: use Online")
        return truth

    def observe(self, state: None, view: View, cohort: Cohort, reports: Reports) -> None:
        return None


class Listing(eqx.Module):
    """How often a client that was listed was really there: in all rounds, after rounds on, and after rounds off.

    A client that is not listed is surely absent, but one that is listed is only heard of if it was asked. To count the
    sure rounds alone would take "not asked" for "absent". So a listed client that was not asked counts as available by
    the share of the times that it was listed, asked, and answered.
    """

    answered: Float[Array, "clients 3"]
    silent: Float[Array, "clients 3"]  # listed and asked, without an answer
    doubted: Float[Array, "clients 3"]  # listed, and nothing is known of it

    @classmethod
    def empty(cls, num_clients: int) -> Listing:
        return cls(*[jnp.zeros((num_clients, 3))] * 3)

    def add(self, before: OnlineState, available: Mask, certain: Mask, listed: Mask, length: Scalar) -> Listing:
        """The counts after one more round."""
        after = [jnp.ones_like(certain), before.follows & before.last, before.follows & ~before.last]
        groups = jnp.stack(after, axis=-1)

        def count(event: Mask) -> Float[Array, "clients 3"]:
            return (groups & event[:, None]).astype(jnp.float32)

        return Listing(
            self.answered + count(available & certain),
            self.silent + count(listed & certain & ~available),
            self.doubted + count(listed & ~certain) * length,
        )

    def presence(self) -> Float[Array, "clients 3"]:
        """The share of the times that a listed client answers, with one pseudo-round of its fleet's, or its own, mean.

        Shares after rounds on and off lean on the client's share over all rounds.
        """
        heard, asked = self.answered, self.answered + self.silent
        fleet = divide(jnp.sum(heard[:, 0]), jnp.sum(asked[:, 0]), otherwise=1.0)
        overall = (heard[:, :1] + fleet) / (asked[:, :1] + 1.0)
        return jnp.concatenate([overall, (heard[:, 1:] + overall) / (asked[:, 1:] + 1.0)], axis=1)


class CountedRounds(eqx.Module):
    """Rounds and transitions of each client, those in doubt by what is likely."""

    rounds: PerClient
    on: PerClient
    from_on: PerClient
    on_on: PerClient
    from_off: PerClient
    off_off: PerClient


class OnlineState(eqx.Module):
    """Sums over the rounds so far, one entry per client; only rounds in which its availability was certain count."""

    rounds: PerClient  # since the client joined
    last: Mask  # availability in the last observed round
    follows: Mask  # whether that was the last round
    on: PerClient  # rounds available
    transitions: PerClient  # from one round to the next
    from_on: PerClient  # transitions that started available
    on_on: PerClient
    off_off: PerClient
    asked: PerClient
    arrived: PerClient
    reach: PerClient  # sum over arrived updates
    listing: Listing | None = None  # what being listed says; on real nodes only

    def presence(self) -> CountedRounds:
        """What the sums say, with the rounds in doubt."""
        sure = CountedRounds(
            self.rounds, self.on, self.from_on, self.on_on, self.transitions - self.from_on, self.off_off
        )
        if self.listing is None:
            return sure
        there, (doubted, after_on, after_off) = self.listing.presence(), jnp.moveaxis(self.listing.doubted, -1, 0)
        return CountedRounds(
            sure.rounds + doubted,
            sure.on + doubted * there[:, 0],
            sure.from_on + after_on,
            sure.on_on + after_on * there[:, 1],
            sure.from_off + after_off,
            sure.off_off + after_off * (1.0 - there[:, 2]),
        )


class Online(Facts[OnlineState]):
    """Estimates from the observed rounds, with Beta priors.

    π̂ = (rounds on + a) / (rounds + a + b); each transition probability likewise, from the transitions that start in its
    state, so that λ̂ = P̂(on→on) + P̂(off→off) - 1 is consistent. A client that was never asked has the prior mean, and
    the mean reach of the others.

    On real nodes a client that was listed but not asked counts as on by the share of the times that it was listed,
    asked and answered (`Listing`). Rounds differ in length: each counts by its length, so that λ̂ is the
    correlation over a round of usual length.

    With `past`, the server has watched the availability of that many rounds of the same world before round 0.
    """

    prior_on: NotNegativeScalar = 1.0  # a, pseudo-rounds on
    prior_off: NotNegativeScalar = 1.0  # b, pseudo-rounds off
    prior_stay: NotNegativeScalar = 1.0  # pseudo-transitions that stay, in each state
    prior_leave: NotNegativeScalar = 1.0  # pseudo-transitions that leave, in each state
    prior_success: NotNegativeScalar = 1.0  # pseudo-uploads that arrived
    prior_failure: NotNegativeScalar = 0.0  # pseudo-uploads lost; zero reads perfect links as exactly perfect
    past: CountOrZero = eqx.field(static=True, default=0)  # rounds watched before round 0; in simulations only

    @property
    def rounds_watched(self) -> int:
        return self.past

    def init(self, fleet: Fleet) -> OnlineState:
        zeros = jnp.zeros_like(fleet.importance)
        never = jnp.zeros(zeros.shape, bool)
        listing = None if fleet.members is None else Listing.empty(fleet.num_clients)
        return OnlineState(zeros, never, never, *[zeros] * 8, listing=listing)

    def read(self, state: OnlineState, truth: Known | None) -> Known:
        seen = state.presence()
        # Short rounds with a change count below zero: the rest of a usual round is still to come.
        stay_on = _share(jnp.maximum(seen.on_on, 0.0), seen.from_on, self.prior_stay, self.prior_leave)
        stay_off = _share(jnp.maximum(seen.off_off, 0.0), seen.from_off, self.prior_stay, self.prior_leave)
        overall = divide(jnp.sum(state.reach), jnp.sum(state.arrived), otherwise=1.0)
        return Known(
            pi=_share(seen.on, seen.rounds, self.prior_on, self.prior_off),
            lam=stay_on + stay_off - 1.0,
            success=_share(state.arrived, state.asked, self.prior_success, self.prior_failure),
            reach=jnp.where(state.arrived > 0, divide(state.reach, state.arrived), overall),
        )

    def observe(self, state: OnlineState, view: View, cohort: Cohort, reports: Reports) -> OnlineState:
        return replace(
            self.watch(state, view.available, view.watched, view.span, view.listed),
            asked=_count(state.asked, cohort.asked),
            arrived=_count(state.arrived, cohort.mask),
            reach=state.reach + cohort.put(reports.reach),
        )

    def watch(
        self,
        state: OnlineState,
        available: Mask,
        watched: Mask | None = None,
        span: Scalar | None = None,
        listed: Mask | None = None,
    ) -> OnlineState:
        certain = jnp.ones_like(state.follows) if watched is None else watched
        length = 1.0 if span is None else span
        follows, on, off = state.follows & certain, available & certain, ~available & certain
        listing = state.listing
        if listing is not None and listed is not None:
            listing = listing.add(state, available, certain, listed, length)
        return replace(
            state,
            listing=listing,
            rounds=_count(state.rounds, certain, length),
            last=jnp.where(certain, available, state.last),
            follows=certain,
            on=_count(state.on, on, length),
            transitions=_count(state.transitions, follows, length),
            from_on=_count(state.from_on, follows & state.last, length),
            on_on=_stayed(state.on_on, follows & state.last, on, length),
            off_off=_stayed(state.off_off, follows & ~state.last, off, length),
        )

    def open(self, state: OnlineState) -> OnlineState:
        return replace(state, follows=jnp.zeros_like(state.follows))


def _count(total: PerClient, event: Mask, length: Scalar = 1.0) -> PerClient:
    return total + event.astype(total.dtype) * length


def _stayed(total: PerClient, before: Mask, after: Mask, length: Scalar) -> PerClient:
    """Time in a state, less one usual round for each change out of it."""
    return _count(_count(total, before & after, length), before & ~after, length - 1.0)


def _share(hits: PerClient, trials: PerClient, prior_hits: Scalar, prior_misses: Scalar) -> PerClient:
    """Posterior mean of a probability under a Beta prior."""
    return (hits + prior_hits) / (trials + (prior_hits + prior_misses))
