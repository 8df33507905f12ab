"""The server's side of one round, pure: view, ask, download, admit, close.

The simulator and the driver of real nodes both call these methods in this order and hold no round logic of their own.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout import tree
from turnout.declarations import CountOrZero, checked
from turnout.server.facts import Facts, Oracle
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.strategies.base import Strategy
from turnout.strategies.sampling import without_replacement
from turnout.streams import Stream, round_key
from turnout.types import (
    Cohort,
    Download,
    Fleet,
    Known,
    Mask,
    Move,
    Params,
    PerClient,
    PerSlot,
    PyTree,
    RandomKey,
    Reports,
    Round,
    Scalar,
    View,
    rate_at,
)


class ServerState(eqx.Module):
    """The state that a server carries from round to round."""

    params: Params
    strategy: PyTree
    facts: PyTree
    optimizer: PyTree
    rest: PerClient | None = None  # rounds until a client may be asked again, where clients rest


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
    strategy: Strategy[PyTree]
    settings: ServerSettings
    slots: int = eqx.field(static=True)

    @classmethod
    @checked
    def of(
        cls, fleet: Fleet, strategy: Strategy[PyTree], settings: ServerSettings | None = None, slots: CountOrZero = 0
    ) -> Server:
        """A server with plain settings, and with the truth as facts, if nothing else is given."""
        return cls(fleet, strategy, (settings or ServerSettings()).with_facts(Oracle()), slots)

    @property
    def facts(self) -> Facts[PyTree]:
        assert self.settings.facts is not None  # `of` fills them in
        return self.settings.facts

    def init(self, params: Params) -> ServerState:
        return ServerState(
            params=params,
            strategy=self.strategy.init(self.fleet, params),
            facts=self.facts.init(self.fleet),
            optimizer=self.settings.optimizer.init(params),
            rest=None if self.settings.rest is None else jnp.zeros_like(self.fleet.importance),
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

    def ask(
        self, state: ServerState, view: View, root: RandomKey, openings: Int[Array, ""] | None = None
    ) -> tuple[Cohort, ServerState]:
        """The cohort to ask, of available clients only; with too few openings some of them, drawn uniformly."""
        if state.rest is not None:
            view = view.among(state.rest <= 0)
        if openings is not None:
            view = replace(view, openings=openings)
        key = round_key(root, Stream.SELECT, view.now)
        ask, strategy = self.strategy.select(state.strategy, view, key)
        reachable = replace(ask, copies=jnp.where(view.available, ask.copies, 0.0))
        if openings is not None:
            key = round_key(root, Stream.OPENINGS, view.now)
            drawn = without_replacement(key, reachable.copies > 0, openings, self.slots)
            reachable = replace(reachable, copies=jnp.where(drawn, reachable.copies, 0.0))
        return Cohort.pack(reachable, self.slots, view.lr), replace(state, strategy=strategy)

    def download(self, state: ServerState, view: View, cohort: Cohort) -> Download:
        """What the cohort is sent, one row per slot."""
        slots = cohort.ids.shape[0]
        shared = tree.repeat(self.strategy.shared(state.strategy, view), slots)
        if self.strategy.starts_shared:
            return Download(tree.repeat(state.params, slots), shared)
        models = jax.vmap(lambda client: self.strategy.start(state.strategy, state.params, client))(cohort.ids)
        return Download(models, shared)

    def admit(self, state: ServerState, view: View, cohort: Cohort, norms: PerSlot, root: RandomKey) -> Cohort:
        """The cohort narrowed to the clients that may upload; `norms` are those of their updates."""
        key = round_key(root, Stream.ADMIT, view.now)
        return self.strategy.admit(state.strategy, view, cohort, norms, key)

    def close(self, state: ServerState, view: View, cohort: Cohort, reports: Reports, tally: Tally) -> Closed:
        """End a round, in simulations and on real nodes alike: weights of the arrived updates, new state and sums."""
        moved, weight = self.step(state, view, cohort, reports)
        facts = self.facts.observe(state.facts, view, cohort, reports)
        available = view.available if view.watched is None else view.available & view.watched
        tally = tally.add(view.t, available, cohort.asked, cohort.mask).weigh(cohort, weight)
        return Closed(replace(moved, facts=facts), tally, weight)

    def step(self, state: ServerState, view: View, cohort: Cohort, reports: Reports) -> tuple[ServerState, PerSlot]:
        """State after the model has moved by these updates, and the weight of each; facts are not touched."""
        if self.strategy.needs_starts and reports.starts is None:  # all were sent the present model
            reports = replace(reports, starts=tree.repeat(state.params, cohort.ids.shape[0]))
        move, strategy = self.strategy.aggregate(state.strategy, state.params, view, cohort, reports)
        params, optimizer = self._move(state, view.t, move, cohort, reports)
        weight = jnp.where(cohort.arrived, move.weight, 0.0)
        return ServerState(params, strategy, state.facts, optimizer, self._rest(state, cohort)), weight

    def _rest(self, state: ServerState, cohort: Cohort) -> PerClient | None:
        """The rests that are left: one round less for all, and the whole rest for those that trained."""
        if state.rest is None:
            return None
        rest = jnp.asarray(self.settings.rest, jnp.float32)
        return jnp.maximum(state.rest - 1.0, 0.0).at[cohort.ids].set(rest, mode="drop")

    def _move(
        self, state: ServerState, t: Round, move: Move, cohort: Cohort, reports: Reports
    ) -> tuple[Params, PyTree]:
        """Model and state of the optimizer after the move; as before if nothing arrived, unless it moves alone."""
        direction = tree.weighted_sum(reports.updates, move.weight) if move.direction is None else move.direction
        moved = jnp.asarray(self.strategy.moves_alone) | jnp.any(cohort.arrived)
        gradient = jax.tree.map(jnp.negative, direction)
        updates, optimizer = self.settings.optimizer.update(gradient, state.optimizer, state.params)
        params = tree.add(state.params, tree.scale(updates, rate_at(self.settings.learning_rate, t)))
        if self.settings.radius is not None:
            params = tree.project(params, self.settings.radius)
        return tree.where(moved, params, state.params), tree.where(moved, optimizer, state.optimizer)

    def model(self, state: ServerState) -> Params:
        """The model to evaluate and to ship."""
        return self.strategy.model(state.strategy, state.params)
