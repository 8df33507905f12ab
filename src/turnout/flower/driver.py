"""A server for real nodes: the pure server driven one round at a time, from plain numpy replies."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from turnout.facts import Facts, Online, Oracle
from turnout.flower import leaves, rounds
from turnout.flower.directory import Directory
from turnout.flower.layout import Arrays, Layout
from turnout.flower.replies import Reply
from turnout.flower.rounds import Order, RoundRecord
from turnout.local import Local
from turnout.server import PLAIN_STEP, Server, ServerState
from turnout.strategies.base import Strategy
from turnout.streams import Stream
from turnout.types import Array, Cohort, Fleet, Params, Scalar, Schedule, View

log = logging.getLogger("turnout.flower")


@dataclass(frozen=True)
class ServerOptions:
    """How the server moves the model, and what it knows of its clients."""

    learning_rate: Scalar | Schedule = 1.0
    optimizer: optax.GradientTransformation = PLAIN_STEP
    radius: Scalar | None = None
    facts: Facts = field(default_factory=Online)

    def __post_init__(self) -> None:
        if isinstance(self.facts, Oracle):
            raise ValueError("an Oracle needs the truth, which a real fleet does not tell: use Online")


@dataclass(frozen=True)
class _Turn:
    """A round that is open."""

    view: View
    cohort: Cohort
    state: ServerState
    orders: dict[str, Order]
    slots: dict[str, int]
    available: tuple[str, ...]
    admitted: bool = False


class Driver:
    """The one object that changes: model, strategy state, estimates, round, and who is who.

    A round is `open_round`, the clients' work, `close_round`. Random keys are folded from the seed, the round and the
    client's place, so a simulation with the same absences gives the same model.
    """

    def __init__(
        self,
        strategy: Strategy,
        arrays: Mapping[str, np.ndarray],
        *,
        local: Local | None = None,
        options: ServerOptions | None = None,
        seed: int = 0,
    ) -> None:
        self.strategy = strategy
        self.local = Local() if local is None else local
        self.options = ServerOptions() if options is None else options
        self.seed = seed
        self.layout = Layout.of(arrays)
        self.directory = Directory()
        self.importance: tuple[float, ...] = ()
        self.t = 0
        self._root = jr.key(seed)
        self._params = self.layout.to_params(arrays)
        self._server: Server | None = None
        self._state: ServerState | None = None
        self._turn: _Turn | None = None

    @property
    def state(self) -> ServerState | None:
        """All that the server carries from round to round, None before the first client has joined."""
        return self._state

    def arrays(self) -> Arrays:
        """The server's model, from which clients start unless the strategy has others in mind."""
        return self.layout.to_arrays(self._params if self._state is None else self._state.params)

    def model(self) -> Arrays:
        """The model to evaluate and to ship."""
        if self._server is None or self._state is None:
            return self.arrays()
        return self.layout.to_arrays(rounds.model(self._server, self._state))

    def join(self, importance: Mapping[str, float]) -> tuple[str, ...]:
        """Take new clients into the fleet, by how much each should count; returns those that are in it now.

        Clients that are in the fleet stay as they are. If the strategy cannot serve the larger fleet, nobody joins, and
        a warning says why: some strategies need a certain number of clients to begin with.
        """
        new = {name: float(worth) for name, worth in importance.items() if name not in self.directory}
        for name, worth in new.items():
            if not (np.isfinite(worth) and worth > 0):
                raise ValueError(f"client {name!r} should count for {worth}; it must be a number above 0")
        if new and self._admits_fleet((*self.importance, *new.values())):
            self._grow(new)
        return tuple(name for name in importance if name in self.directory)

    def open_round(self, available: Collection[str], losses: Mapping[str, float] | None = None) -> list[Order]:
        """What to ask of whom, given who is there; `losses` are the answers to a probe, for strategies that probe."""
        if self._turn is not None:
            raise RuntimeError(f"round {self.t} is still open: close it first")
        if self.strategy.probes:
            if losses is None:
                raise ValueError(f"{type(self.strategy).__name__} needs the loss of every available client")
            available = [name for name in available if name in losses]
        places = {self.directory.place(name): name for name in available}
        if self._server is None or self._state is None:
            return []
        mask = np.zeros(len(self.directory), bool)
        mask[list(places)] = True
        opened = rounds.open_round(
            self._server, self.local, self._state, self._now(), jnp.asarray(mask), self._probed(losses), self._root
        )
        self._turn = self._hand_out(opened, tuple(places[place] for place in sorted(places)))
        return list(self._turn.orders.values())

    def probe_seeds(self, names: Collection[str]) -> dict[str, int]:
        """32 bits for each client's probe in this round."""
        places = jnp.asarray([self.directory.place(name) for name in names], jnp.int32)
        words = np.asarray(rounds.words(self._root, Stream.PROBE, self._now(), places)) if len(names) else []
        return {name: int(word) for name, word in zip(names, words, strict=True)}

    def admit_round(self, norms: Mapping[str, float]) -> tuple[str, ...]:
        """Who may upload, given the lengths of the updates; a client without one is out of this round."""
        turn = self._opened()
        here = np.zeros(turn.cohort.ids.shape[0], bool)
        lengths = np.zeros(here.shape, np.float32)
        for name, norm in norms.items():
            if name in turn.slots:
                here[turn.slots[name]], lengths[turn.slots[name]] = True, norm
        server = self._serving()
        cohort = replace(turn.cohort, active=turn.cohort.active & jnp.asarray(here))
        cohort = rounds.admit(server, turn.state, turn.view, cohort, jnp.asarray(lengths), self._root)
        self._turn = replace(turn, cohort=cohort, admitted=True)
        return self._named(cohort.active)

    def close_round(self, replies: Mapping[str, Reply], absent: Collection[str] = ()) -> RoundRecord:
        """Move the model by what arrived.

        `absent` are clients that were listed as available and asked, but never heard of: they count as not available,
        since a reply is the only sure sign that somebody was there. Clients that are neither absent nor in `replies`
        were there, but their upload failed.
        """
        if self._turn is None:
            self.t += 1
            return RoundRecord(self.t - 1, (), (), (), (), {}, True)
        self._mark_absent(absent)
        if not self.strategy.admits_all and not self._turn.admitted:
            self.admit_round({name: reply.norm for name, reply in replies.items()})
        turn, server = self._opened(), self._serving()
        closed = rounds.close(server, turn.state, turn.view, turn.cohort, *self._rows(turn, replies))
        if not (steady := bool(closed.steady)):
            log.error("round %d would make the model infinite: all its %d replies are dropped", self.t, len(replies))
            closed = rounds.close(server, turn.state, turn.view, turn.cohort, *self._rows(turn, {}))
        record = self._record(turn, closed, steady)
        self._state = closed.state if bool(closed.steady) else self._state
        self._turn, self.t = None, self.t + 1
        return record

    def restore(self, t: int, importance: Mapping[str, float], arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from what `named_leaves` gave after t rounds; `importance` is the whole fleet, by place."""
        if importance:
            self._grow(dict(importance))
            self._state = leaves.filled(self._state, arrays)
        elif arrays:
            raise ValueError("there is a state, but no client that it could belong to")
        self.t = t

    def named_leaves(self) -> Arrays:
        """Every array of the state, by its path."""
        return leaves.named(self._state)

    def _admits_fleet(self, importance: tuple[float, ...]) -> bool:
        try:
            self.strategy.check(_fleet(importance))
        except ValueError as error:
            waiting = len(importance) - len(self.importance)
            log.warning("%d clients cannot join the fleet of %d yet: %s", waiting, len(self.importance), error)
            return False
        return True

    def _grow(self, new: Mapping[str, float]) -> None:
        before = len(self.importance)
        self.importance = (*self.importance, *new.values())
        self.directory.join(new)
        options, slots = self.options, max(1, self.strategy.capacity(len(self.importance)))
        fleet, rate = _fleet(self.importance), options.learning_rate
        self._server = Server(fleet, self.strategy, options.facts, rate, options.optimizer, slots, options.radius)
        if self._state is None:
            self._state = self._server.init(self._params)
        else:
            self._state = self._server.grow(self._state, before)

    def _now(self) -> Array:
        return jnp.asarray(self.t, jnp.int32)

    def _opened(self) -> _Turn:
        if self._turn is None:
            raise RuntimeError(f"round {self.t} is not open: open it first")
        return self._turn

    def _serving(self) -> Server:
        if self._server is None:
            raise RuntimeError("no client has joined")
        return self._server

    def _probed(self, losses: Mapping[str, float] | None) -> Array | None:
        if losses is None or not self.strategy.probes:
            return None
        by_place = np.zeros(len(self.directory), np.float32)
        for name, loss in losses.items():
            by_place[self.directory.place(name)] = loss
        return jnp.asarray(by_place)

    def _hand_out(self, opened: Any, available: tuple[str, ...]) -> _Turn:
        view, cohort, state, words, start, rate = opened
        names, shared = self.directory.names, self.arrays() if self.strategy.starts_shared else None
        columns = zip(*(np.asarray(part) for part in (cohort.ids, cohort.scale, cohort.weight, words)), strict=True)
        if int(cohort.overflow) != 0:
            raise RuntimeError(f"{type(self.strategy).__name__} asked {int(cohort.overflow)} clients too many")
        orders, slots = {}, {}
        for slot, (place, scale, weight, word) in enumerate(columns):
            if place == len(names):
                continue
            name, begin = names[place], shared
            if begin is None:
                begin = self.layout.to_arrays({key: rows[slot] for key, rows in start.items()})
            step = float(np.float32(rate) * scale)
            orders[name] = Order(name, begin, step, float(scale), float(weight), int(word))
            slots[name] = slot
        return _Turn(view, cohort, state, orders, slots, available)

    def _mark_absent(self, absent: Collection[str]) -> None:
        turn = self._opened()
        gone = np.zeros(len(self.directory), bool)
        gone[[self.directory.place(name) for name in absent]] = True
        here = ~jnp.asarray(gone)
        view = replace(turn.view, available=turn.view.available & here)
        cohort = replace(turn.cohort, active=turn.cohort.active & turn.cohort.take(here))
        available = tuple(name for name in turn.available if name not in absent)
        self._turn = replace(turn, view=view, cohort=cohort, available=available)

    def _rows(self, turn: _Turn, replies: Mapping[str, Reply]) -> tuple[Params, Array, Array, Array]:
        """Updates, losses, reach and arrivals, one row a slot; exactly zero where nothing counts."""
        count, active = turn.cohort.ids.shape[0], np.asarray(turn.cohort.active)
        updates = self.layout.rows(count)
        losses, reach, came = np.zeros(count, np.float32), np.zeros(count, np.float32), np.zeros(count, bool)
        for name, reply in replies.items():
            slot = turn.slots.get(name)
            if slot is None:
                log.warning("round %d: %s was not asked; its reply is dropped", self.t, name)
                continue
            if not active[slot]:
                continue
            losses[slot], reach[slot], came[slot] = reply.loss, reply.reach, True
            for key, rows in updates.items():
                rows[slot] = reply.update[key]
        return jax.tree.map(jnp.asarray, (updates, losses, reach, came))

    def _named(self, slots: Any) -> tuple[str, ...]:
        chosen = np.asarray(slots)
        return tuple(name for name, slot in self._opened().slots.items() if chosen[slot])

    def _record(self, turn: _Turn, closed: rounds.Closed, steady: bool) -> RoundRecord:
        arrived, weight = self._named(closed.cohort.arrived), np.asarray(closed.weight)
        weights = {name: float(weight[turn.slots[name]]) for name in arrived}
        uploads = self._named(closed.cohort.active)
        return RoundRecord(self.t, turn.available, tuple(turn.orders), uploads, arrived, weights, steady)


def _fleet(importance: tuple[float, ...]) -> Fleet:
    return Fleet(jnp.asarray(importance, jnp.float32))
