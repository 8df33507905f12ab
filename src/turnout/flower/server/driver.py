"""A server for real nodes: the pure server driven one round at a time, from plain numpy replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.flower.fleet.directory import Directory
from turnout.flower.server import compiled_round as rounds
from turnout.flower.server.accepted import real_settings
from turnout.flower.server.compiled_round import Order, RoundRecord
from turnout.flower.server.open_round import Turn, UpdateRoom
from turnout.flower.wire import archive
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.replies import Reply
from turnout.server.server import Server, ServerState
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.simulator.local import Local
from turnout.strategies.base import Strategy
from turnout.streams import Stream
from turnout.types import Array, Cohort, Fleet

log = logging.getLogger("turnout.flower")

_TOGETHER = 8  # clients whose own start models are computed at once


class Driver:
    """The one object with state: model, strategy state, estimates, round, and the directory of clients.

    A round is `open_round`, the clients' work, `close_round`. Random keys are folded from the seed, the round and the
    client's place, so a simulation with the same absences gives the same model.
    """

    def __init__(
        self,
        strategy: Strategy,
        arrays: Mapping[str, np.ndarray],
        *,
        local: Local | None = None,
        settings: ServerSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.strategy = strategy
        self.local = Local() if local is None else local
        self.settings = real_settings(settings, strategy)
        self.seed = seed
        self.layout = Layout.of(arrays)
        self.directory = Directory()
        self.importance: tuple[float, ...] = ()
        self.t = 0
        self._root = jr.key(seed)
        self._params = self.layout.to_params(arrays)
        self._server: Server | None = None
        self._state: ServerState | None = None
        self._tally = Tally.empty(0)
        self._room: UpdateRoom | None = None
        self._turn: Turn | None = None

    @property
    def state(self) -> ServerState | None:
        """All that the server carries from round to round, None before the first client has joined.

        Its arrays are invalid once the next round opens: copy what is needed later.
        """
        return self._state

    def arrays(self) -> Arrays:
        """The server's model, from which clients start unless the strategy gives them others."""
        return self.layout.to_arrays(self._params if self._state is None else self._state.params)

    def model(self) -> Arrays:
        """The model to evaluate and to deploy."""
        if self._server is None or self._state is None:
            return self.arrays()
        return self.layout.to_arrays(rounds.model(self._server, self._state))

    @property
    def is_open(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._turn is not None

    def has(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether this is the server's model, in all that is trained; arrays of another form are an error."""
        model = self.model()
        if arrays.keys() != model.keys() or any(np.shape(arrays[name]) != model[name].shape for name in model):
            raise ValueError("the model handed to the strategy has other arrays or shapes than the one it returned")
        return all(np.array_equal(arrays[name], model[name]) for name in self.layout.trained)

    def adopt(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Go on from a model that was changed since the last round, as wrappers for differential privacy do.

        Returns whether it is another one. Arrays that are not trained stay as they are. A strategy that sets the model
        itself cannot go on from another one.
        """
        if self.has(arrays):
            return False
        if self.strategy.plain_step:
            name = type(self.strategy).__name__
            raise ValueError(f"{name} sets the model itself, so nothing around it may change the model between rounds")
        if not all(np.isfinite(arrays[name]).all() for name in self.layout.trained):
            raise ValueError("the model handed to the strategy holds a value that is not finite")
        params = self.layout.to_params(arrays)
        if self._state is None:
            self._params = params
        else:
            self._state = replace(self._state, params=params)
        return True

    def keep(self) -> ServerState | None:
        """A copy of the state, to go back to; not to be taken while a round is open."""
        return _copied(self._state)

    def go_back(self, kept: ServerState) -> None:
        """Go on from the model, optimizer and strategy of a former state; what is known of the clients stays."""
        server, state = self._serving()
        former = len(jax.tree.leaves(kept.facts)[0]) if jax.tree.leaves(kept.facts) else len(self.importance)
        self._state = _copied(replace(server.grow(kept, former), facts=state.facts))

    def weigh(self, importance: Mapping[str, float]) -> None:
        """Change how much clients of the fleet count from the next round on; those not named count as before."""
        before = zip(self.directory.names, self.importance, strict=True)
        weighed = tuple(float(importance.get(name, worth)) for name, worth in before)
        if weighed != self.importance and self._server is not None:
            self.importance = weighed
            self._server = replace(self._server, fleet=_fleet(weighed))

    def join(self, importance: Mapping[str, float]) -> tuple[str, ...]:
        """Add new clients to the fleet, with the importance of each; returns those of them that are in it now.

        Clients that are in the fleet already keep their importance. If the strategy cannot serve the larger fleet,
        nobody joins, and a warning says why: some strategies need a certain number of clients to begin with.
        """
        new = {name: float(worth) for name, worth in importance.items() if name not in self.directory}
        for name, worth in new.items():
            if not (np.isfinite(worth) and worth > 0):
                raise ValueError(f"client {name!r} should count for {worth}; it must be a number above 0")
        if new and self._admits_fleet((*self.importance, *new.values())):
            self._grow(new)
        return tuple(name for name in importance if name in self.directory)

    def open_round(self, available: Collection[str], losses: Mapping[str, float] | None = None) -> list[Order]:
        """One order per selected client, given who is available; `losses` are answers to a probe, if there was one."""
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
        inputs = (self._server, self.local, self._now(), jnp.asarray(mask), self._probed(losses), self._root)
        view, cohort, self._state, words, rate = rounds.open_round(inputs, self._state)
        if int(cohort.overflow) != 0:
            raise RuntimeError(f"{type(self.strategy).__name__} asked {int(cohort.overflow)} clients too many")
        orders, slots = self._hand_out(cohort, words, float(rate))
        self._turn = Turn(view, cohort, orders, slots, tuple(places[place] for place in sorted(places)))
        return list(orders.values())

    def probe_seeds(self, names: Collection[str]) -> dict[str, int]:
        """32 random bits per client, for its probe in this round."""
        places = jnp.asarray([self.directory.place(name) for name in names], jnp.int32)
        words = np.asarray(rounds.words(self._root, Stream.PROBE, self._now(), places)) if len(names) else []
        return {name: int(word) for name, word in zip(names, words, strict=True)}

    def admit_round(self, norms: Mapping[str, float], absent: Collection[str] = ()) -> tuple[str, ...]:
        """Clients that may upload, given the lengths of the updates; a client without one is out of this round."""
        self._leave_out(absent)
        turn, (server, state) = self._opened(), self._serving()
        cohort, lengths = turn.lengths(norms)
        cohort = rounds.admit(server, state, turn.view, cohort, lengths, self._root)
        self._turn = replace(turn, cohort=cohort, admitted=True)
        return self._turn.named(cohort.active)

    def room_for(self, name: str) -> Arrays:
        """The arrays to write a client's update to, so that it need not be copied."""
        turn = self._opened()
        return self._updates(turn.cohort.ids.shape[0]).row(turn.slots[name])

    def close_round(
        self, replies: Mapping[str, Reply], absent: Collection[str] = (), worked: Mapping[str, float] | None = None
    ) -> RoundRecord:
        """Update the model with the replies.

        `absent` are clients that were listed and asked, but gave no sign: they count as not available, since only a
        reply proves that a client was there. Clients that are neither absent nor in `replies` were available, but their
        upload failed. `worked` is the reach of clients that have trained, but need not upload.
        """
        if self._turn is None:
            self.t += 1
            return RoundRecord(self.t - 1, (), (), (), (), {}, True)
        self._leave_out(absent)
        if not self.strategy.admits_all and not self._turn.admitted:
            self.admit_round({name: reply.norm for name, reply in replies.items()})
        turn, ended = self._turn, self._close(replies)
        if not (steady := bool(ended.steady)):
            log.error("round %d would make the model infinite: all its %d replies are dropped", self.t, len(replies))
            ended = self._close({})
        reach = {**(worked or {})} | {name: reply.reach for name, reply in replies.items() if name in turn.slots}
        record = replace(self._record(turn, ended, replies, steady), steps=float(sum(reach.values())))
        self._state = ended.closed.state if bool(ended.steady) else self._state
        self._tally, self._turn, self.t = ended.closed.tally, None, self.t + 1
        return record

    def _leave_out(self, absent: Collection[str]) -> None:
        if absent:
            self._turn = self._opened().without(absent, {name: self.directory.place(name) for name in absent})

    def _close(self, replies: Mapping[str, Reply]) -> rounds.ClosedRound:
        turn, (server, state) = self._opened(), self._serving()
        rows = self._updates(turn.cohort.ids.shape[0]).filled(turn, replies)
        return jax.block_until_ready(rounds.close(server, state, turn.view, turn.cohort, self._tally, *rows))

    def restore(self, t: int, importance: Mapping[str, float], arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from the `named_leaves` after t rounds; `importance` is that of the whole fleet, by place."""
        if importance:
            self._grow(dict(importance))
            self._state, self._tally = archive.with_leaves((self._state, self._tally), arrays)
        elif arrays:
            raise ValueError("it holds a state, but no clients")
        self.t = t

    def named_leaves(self) -> Arrays:
        """Every array of the state and of the sums per client, by its path."""
        return {} if self._state is None else archive.named_leaves((self._state, self._tally))

    def sums(self) -> dict[str, np.ndarray]:
        """Sums per client over the rounds so far, by place, as in a simulation."""
        return {name: np.asarray(values) for name, values in self._tally.summary(self.t).items()}

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
        slots = max(1, self.strategy.capacity(len(self.importance)))
        self._server = Server(_fleet(self.importance), self.strategy, self.settings, slots)
        server, state = self._server, self._state
        state = server.init(self._params) if state is None else server.grow(state, before)
        self._state = _copied(state)
        self._tally = _longer(self._tally, len(self.importance), self.t)
        self._room = None

    def _now(self) -> Array:
        return jnp.asarray(self.t, jnp.int32)

    def _opened(self) -> Turn:
        if self._turn is None:
            raise RuntimeError(f"round {self.t} is not open: open it first")
        return self._turn

    def _serving(self) -> tuple[Server, ServerState]:
        if self._server is None or self._state is None:
            raise RuntimeError("no client has joined")
        return self._server, self._state

    def _updates(self, slots: int) -> UpdateRoom:
        if self._room is None:
            self._room = UpdateRoom(self.layout, slots)
        return self._room

    def _probed(self, losses: Mapping[str, float] | None) -> Array | None:
        if losses is None or not self.strategy.probes:
            return None
        by_place = np.zeros(len(self.directory), np.float32)
        for name, loss in losses.items():
            by_place[self.directory.place(name)] = loss
        return jnp.asarray(by_place)

    def _hand_out(
        self, cohort: Cohort, words: tuple[Array, Array], rate: float
    ) -> tuple[dict[str, Order], dict[str, int]]:
        names, find = self.directory.names, self._starts(cohort)
        acknowledged = np.where(np.asarray(self._tally.arrived) > 0, np.asarray(self._tally.last) + 1, 0)
        columns = zip(*(np.asarray(part) for part in (cohort.ids, cohort.scale, cohort.weight, *words)), strict=True)
        orders, slots = {}, {}
        for slot, (place, scale, weight, *seeds) in enumerate(columns):
            if place < len(names):
                name, step, factors = names[place], float(np.float32(rate) * scale), (float(scale), float(weight))
                train, upload, last = (int(number) for number in (*seeds, acknowledged[place]))
                orders[name], slots[name] = Order(name, partial(find, slot), step, *factors, train, upload, last), slot
        return orders, slots

    def _starts(self, cohort: Cohort) -> Callable[[int], Arrays]:
        """A function from a slot to the model from which its client starts."""
        if self.strategy.starts_shared:
            shared = self.arrays()
            return lambda slot: shared
        (server, state), ids = self._serving(), np.asarray(cohort.ids)
        room = self._updates(len(ids))
        for first in range(0, int(np.sum(ids < len(self.directory))), _TOGETHER):
            places = np.resize(ids[first : first + _TOGETHER], _TOGETHER)  # always the same number: one program
            room.put(first, jax.device_get(rounds.starts(server, state, jnp.asarray(places, jnp.int32))))
        return lambda slot: self.layout.to_arrays(room.row(slot), copy=False)

    def _record(self, turn: Turn, ended: rounds.ClosedRound, replies: Mapping[str, Reply], steady: bool) -> RoundRecord:
        arrived, weight = turn.named(ended.cohort.arrived), np.asarray(ended.closed.weight)
        weights = {name: float(weight[turn.slots[name]]) for name in arrived}
        losses = {name: loss for name in arrived if (loss := replies[name].loss) is not None}
        worths = {name: self.importance[self.directory.place(name)] for name in losses}
        loss = sum(worths[name] * losses[name] for name in losses) / sum(worths.values()) if losses else None
        uploads, asked = turn.named(ended.cohort.active), tuple(turn.orders)
        return RoundRecord(self.t, turn.available, asked, uploads, arrived, weights, steady, loss=loss)


def _copied(state: ServerState | None) -> ServerState | None:
    """A state of its own, since the next round donates its arrays."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), state)


def _longer(tally: Tally, count: int, t: int) -> Tally:
    """The sums with newcomers at the end, who joined in round t and have missed nothing before."""
    fresh, before = Tally.empty(count), tally.last.shape[0]
    fresh = replace(fresh, last=jnp.full(count, t - 1, jnp.int32))
    return jax.tree.map(lambda old, new: new.at[:before].set(old), tally, fresh)


def _fleet(importance: tuple[float, ...]) -> Fleet:
    return Fleet(jnp.asarray(importance, jnp.float32))
