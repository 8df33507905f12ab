"""The server's side of one round, pure: view, ask, start, admit, close.

The simulator and the driver of real nodes both call these methods in this order and hold no round logic of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout import tree
from turnout.server.facts import Facts, Oracle
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.strategies.base import Strategy
from turnout.streams import Stream, round_key
from turnout.types import (
    Cohort,
    Fleet,
    Known,
    Mask,
    Params,
    PerClient,
    PerSlot,
    RandomKey,
    Reports,
    Round,
    Scalar,
    View,
    rate_at,
    where_rows,
)


class ServerState(eqx.Module):
    """The state that a server carries from round to round."""

    params: Params
    strategy: Any
    facts: Any
    optimizer: Any


class Closed(eqx.Module):
    """The result of a round."""

    state: ServerState
    tally: Tally
    weight: PerSlot  # factor of each update in the direction, zero where none arrived


class Server(eqx.Module):
    """A strategy with the server's settings.

    A round in which nothing arrives leaves model and optimizer as they are, unless the strategy moves alone.
    """

    fleet: Fleet
    strategy: Strategy
    settings: ServerSettings
    slots: int = eqx.field(static=True)

    @classmethod
    def of(cls, fleet: Fleet, strategy: Strategy, settings: ServerSettings | None = None, slots: int = 0) -> Server:
        """A server with plain settings, and with the truth as facts, if nothing else is given."""
        return cls(fleet, strategy, (settings or ServerSettings()).with_facts(Oracle()), slots)

    @property
    def facts(self) -> Facts:
        assert self.settings.facts is not None  # `of` fills them in
        return self.settings.facts

    def init(self, params: Params) -> ServerState:
        return ServerState(
            params=params,
            strategy=self.strategy.init(self.fleet, params),
            facts=self.facts.init(self.fleet),
            optimizer=self.settings.optimizer.init(params),
        )

    def view(
        self,
        state: ServerState,
        t: Round,
        available: Mask,
        lr: Scalar,
        truth: Known | None = None,
        losses: PerClient | None = None,
    ) -> View:
        """The strategy's view of round t."""
        facts = self.facts.read(state.facts, truth)
        fleet = self.fleet
        return View(t, fleet.importance, available, facts, lr, losses, slots=self.slots, members=fleet.members)

    def ask(self, state: ServerState, view: View, root: RandomKey) -> tuple[Cohort, ServerState]:
        """The cohort to ask, of available clients only."""
        key = round_key(root, Stream.SELECT, view.t)
        ask, strategy = self.strategy.select(state.strategy, view, key)
        reachable = replace(ask, copies=jnp.where(view.available, ask.copies, 0.0))
        return Cohort.pack(reachable, self.slots), replace(state, strategy=strategy)

    def start(self, state: ServerState, cohort: Cohort) -> Params:
        """The models from which the cohort starts, one row per slot."""
        if self.strategy.starts_shared:
            return tree.repeat(state.params, cohort.ids.shape[0])
        return jax.vmap(lambda k: self.strategy.start(state.strategy, state.params, k))(cohort.ids)

    def admit(self, state: ServerState, view: View, cohort: Cohort, norms: PerSlot, root: RandomKey) -> Cohort:
        """The cohort narrowed to the clients that may upload; `norms` are those of their updates."""
        key = round_key(root, Stream.ADMIT, view.t)
        return self.strategy.admit(state.strategy, view, cohort, norms, key)

    def tell(self, state: ServerState, view: View, cohort: Cohort, reports: Reports) -> ServerState:
        """State after the updates that arrived."""
        direction, strategy = self.strategy.aggregate(state.strategy, state.params, view, cohort, reports)
        moved = jnp.asarray(self.strategy.moves_alone) | jnp.any(cohort.arrived)
        params, optimizer = self._move(state, view.t, direction, moved)
        return ServerState(
            params=params,
            strategy=self.strategy.settle(strategy, params, view, cohort),
            facts=self.facts.observe(state.facts, view, cohort, reports),
            optimizer=optimizer,
        )

    def close(self, state: ServerState, view: View, cohort: Cohort, reports: Reports, tally: Tally) -> Closed:
        """End a round, in simulations and on real nodes alike: weights of the arrived updates, new state and sums."""
        weight = jnp.where(cohort.arrived, self.strategy.weigh(state.strategy, view, cohort), 0.0)
        available = view.available if view.watched is None else view.available & view.watched
        tally = tally.add(view.t, available, cohort, weight)
        return Closed(self.tell(state, view, cohort, reports), tally, weight)

    def _move(self, state: ServerState, t: Round, direction: Params, moved: Any) -> tuple[Params, Any]:
        gradient = jax.tree.map(jnp.negative, direction)
        updates, optimizer = self.settings.optimizer.update(gradient, state.optimizer, state.params)
        params = tree.add(state.params, tree.scale(updates, rate_at(self.settings.learning_rate, t)))
        if self.settings.radius is not None:
            params = tree.project(params, self.settings.radius)
        return tree.where(moved, params, state.params), tree.where(moved, optimizer, state.optimizer)

    def grow(self, state: ServerState, num_before: int) -> ServerState:
        """State for a fleet that clients have joined: the old clients keep theirs, the new ones start afresh.

        `self` is the server of the larger fleet, whose first `num_before` clients are the old ones.
        """
        fresh = self.init(state.params)

        def carry_over(old: Any, new: Any) -> Any:
            return old if old.shape == new.shape else new.at[:num_before].set(old)

        grown = jax.tree.map(carry_over, (state.strategy, state.facts), (fresh.strategy, fresh.facts))
        return replace(state, strategy=grown[0], facts=grown[1])

    def renew(self, state: ServerState, places: Mask) -> ServerState:
        """State in which these places are as before a client's first round, for clients that join or have left."""

        def reset(old: Any, new: Any, has_row: bool) -> Any:
            return where_rows(places, new, old) if has_row else old

        fresh = self.init(state.params)
        parts = (state.strategy, state.facts)
        strategy, facts = jax.tree.map(reset, parts, (fresh.strategy, fresh.facts), self.has_rows(state.params))
        return replace(state, strategy=strategy, facts=facts)

    def vacate(self, state: ServerState, places: Mask) -> ServerState:
        """State after the clients at these places have left; `self` is the server of the fleet without them."""
        state = self.renew(state, places)
        return replace(state, strategy=self.strategy.recount(state.strategy, self.fleet))

    def has_rows(self, params: Params) -> tuple[Any, Any]:
        """For each array of the strategy's state and of the facts: whether it has one row per client.

        That is so if one client more makes it larger. A length alone proves nothing: a model's may be the same.
        """

        def shapes(num_clients: int) -> Any:
            importance = jax.ShapeDtypeStruct((num_clients,), self.fleet.importance.dtype)

            def init(importance: PerClient, params: Params) -> Any:
                fleet = Fleet(importance, jnp.ones(num_clients, bool))
                return self.strategy.init(fleet, params), self.facts.init(fleet)

            return jax.eval_shape(init, importance, params)

        count = self.fleet.num_clients
        return jax.tree.map(lambda one, other: one.shape != other.shape, shapes(count), shapes(count + 1))

    def model(self, state: ServerState) -> Params:
        """The model to evaluate and to ship."""
        return self.strategy.model(state.strategy, state.params)
