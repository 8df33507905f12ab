"""A server for real nodes: the pure server driven one round at a time, from plain numpy replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.flower.fleet.directory import Directory
from turnout.flower.server import compiled_round as rounds
from turnout.flower.server import places
from turnout.flower.server.accepted import real_settings
from turnout.flower.server.compiled_round import Order, RoundRecord
from turnout.flower.server.open_round import Turn, UpdateRoom, orders_of
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

State = TypeVar("State")

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
        self._sizes: dict[str, float] = {}  # by client, where replies tell them
        self._reweighed = False  # in this epoch
        self.epoch = 0  # round from which on updates count, where clients remember what they have sent
        self._compiled: tuple[int, int] | None = None  # places and slots for which the end of a round is compiled
        self._compiling: Future | None = None

    @property
    def state(self) -> ServerState | None:
        """All that the server carries from round to round, None before the first client has joined.

        It has one row per place, vacant places included. Its arrays are invalid once the next round opens, or clients
        join or leave: copy what is needed later.
        """
        return self._state

    def arrays(self) -> Arrays:
        """The server's model, from which clients start unless the strategy gives them others."""
        return self.layout.to_arrays(self._params if self._state is None else self._state.params)

    def model(self) -> Arrays:
        """The model to evaluate and to deploy."""
        if self._server is None or self._state is None or not len(self.directory):
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
        return None if self._state is None else _copied(self._state)

    def go_back(self, kept: ServerState) -> None:
        """Go on from the model, optimizer and strategy of a former state; what is known of the clients stays."""
        server, state = self._serving()
        former = len(jax.tree.leaves(kept.facts)[0]) if jax.tree.leaves(kept.facts) else len(self.importance)
        self._state = _copied(replace(server.grow(kept, former), facts=state.facts))
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Where clients remember what they have sent: forget the sum of it, and let all of them send in full again.

        Only the client can take its share out of that sum. So a client that has lost its memory, left for good, or
        counts differently now would leave a part of it there for ever.
        """
        if self.strategy.client_memory is None or self._server is None or self._state is None:
            return
        log.info("a new epoch begins after round %d: every client sends its update in full", self.t)
        forgotten = self.strategy.init(self._server.fleet, self._state.params)
        self._state, self.epoch = _copied(replace(self._state, strategy=forgotten)), self.t

    def weigh(self, importance: Mapping[str, float]) -> None:
        """Change how much clients of the fleet count, in the open round too; those not named count as before."""
        names = zip(self.directory.by_place, self.importance, strict=True)
        weighed = tuple(worth if name is None else float(importance.get(name, worth)) for name, worth in names)
        if weighed == self.importance or self._server is None:
            return
        before, self.importance = self._server.fleet, weighed
        after = self._serve().fleet
        self._reweighed = True
        if self._turn is not None:
            self._turn = self._turn.reweighed(before, after)

    def join(self, importance: Mapping[str, float]) -> tuple[str, ...]:
        """Add new clients to the fleet, with the importance of each; returns those of them that are in it now.

        Clients that are in the fleet already keep their importance. If the strategy cannot serve the larger fleet,
        nobody joins, and a warning says why: some strategies need a certain number of clients to begin with.
        """
        new = {name: float(worth) for name, worth in importance.items() if name not in self.directory}
        for name, worth in new.items():
            if not places.can_count(worth):
                raise ValueError(f"client {name!r} should count for {worth}; it must be {places.WORTHS}")
        if new and self._admits_fleet(new):
            self._set_importance(dict(zip(self.directory.join(new), new.values(), strict=True)))
        return tuple(name for name in importance if name in self.directory)

    def weigh_by_size(self, sizes: Mapping[str, float]) -> None:
        """Let clients count by the sizes of their data; those that have not told theirs count as the median."""
        self._sizes |= {name: float(size) for name, size in sizes.items() if name in self.directory}
        if self._sizes:
            usual = float(np.median(list(self._sizes.values())))
            self.weigh({name: self._sizes.get(name, usual) for name in self.directory.names})

    def retire(self, names: Collection[str]) -> None:
        """Let clients leave for good: nothing of them counts any more, and newcomers get their places."""
        if self._turn is not None:
            raise RuntimeError(f"round {self.t} is still open: clients can leave once it is closed")
        if vacant := self.directory.leave(names):
            self._set_importance(dict.fromkeys(vacant, 0.0), left=True)
            self.begin_epoch()

    def open_round(self, available: Collection[str], losses: Mapping[str, float] | None = None) -> list[Order]:
        """One order per selected client, given who is available; `losses` are answers to a probe, if there was one."""
        if self._turn is not None:
            raise RuntimeError(f"round {self.t} is still open: close it first")
        if self.strategy.probes:
            if losses is None:
                raise ValueError(f"{type(self.strategy).__name__} needs the loss of every available client")
            available = [name for name in available if name in losses]
        here = {self.directory.place(name): name for name in available}
        if self._server is None or self._state is None or not len(self.directory):
            return []
        inputs = (self._server, self._local_now(), self._now(), self._mask(here), self._probed(losses), self._root)
        view, cohort, self._state, words, rate = rounds.open_round(inputs, self._state)
        if int(cohort.overflow) != 0:
            raise RuntimeError(f"{type(self.strategy).__name__} asked {int(cohort.overflow)} clients too many")
        available = tuple(here[place] for place in sorted(here))
        last = np.asarray(self._tally.last) + 1
        acknowledged = np.where((np.asarray(self._tally.arrived) > 0) & (last > self.epoch), last, 0)
        orders = orders_of(cohort, words, float(rate), self.directory.by_place, acknowledged, self._starts(cohort))
        slots = {order.client: slot for slot, order in orders.items()}
        turn = Turn(view, cohort, {order.client: order for order in orders.values()}, slots, available)
        self._turn = turn.observed((), (), 1.0)
        self._compile_close(self._turn)
        return list(orders.values())

    def _local_now(self) -> Local:
        """The clients' optimizer, with a learning rate that may change from round to round without a new program."""
        rate = self.local.learning_rate
        return self.local if callable(rate) else replace(self.local, learning_rate=jnp.asarray(rate, jnp.float32))

    def probe_seeds(self, names: Collection[str]) -> dict[str, int]:
        """32 random bits per client, for its probe in this round."""
        chosen = jnp.asarray([self.directory.place(name) for name in names], jnp.int32)
        words = np.asarray(rounds.words(self._root, Stream.PROBE, self._now(), chosen)) if len(names) else []
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
        self,
        replies: Mapping[str, Reply],
        absent: Collection[str] = (),
        worked: Mapping[str, float] | None = None,
        *,
        unknown: Collection[str] = (),
        span: float = 1.0,
        forgotten: Collection[str] = (),
    ) -> RoundRecord:
        """Update the model with the replies.

        `absent` are clients that were listed and asked, but gave no sign: they count as not available, since only a
        reply proves that a client was there. Clients that are neither absent nor in `replies` were available, but their
        upload failed. `worked` is the reach of clients that have trained, but need not upload. `unknown` are clients of
        which nothing is known in this round, `span` is its length in usual rounds. `forgotten` are clients that have
        lost their memory of what they have sent: their replies cannot count, and a new epoch begins.
        """
        if self._turn is None:
            self.t += 1
            return RoundRecord(self.t - 1, (), (), (), (), {}, True)
        self._leave_out(absent)
        self._turn = self._turn.observed([self.directory.place(name) for name in unknown], unknown, span)
        if not self.strategy.admits_all and not self._turn.admitted:
            self.admit_round({name: reply.norm for name, reply in replies.items()})
        turn, ended = self._turn, self._close(replies)
        if not (steady := bool(ended.steady)):
            log.error("round %d would make the model infinite: all its %d replies are dropped", self.t, len(replies))
            ended = self._close({})
        reach = {**(worked or {})} | {name: reply.reach for name, reply in replies.items() if name in turn.slots}
        worths = {name: self.importance[self.directory.place(name)] for name in turn.orders}
        record = replace(turn.record(self.t, ended, replies, worths), steady=steady, steps=float(sum(reach.values())))
        self._state = ended.closed.state if bool(ended.steady) else self._state
        self._tally, self._turn, self.t = ended.closed.tally, None, self.t + 1
        if forgotten or self._reweighed:
            self._reweighed = False
            self.begin_epoch()
        return record

    def _leave_out(self, absent: Collection[str]) -> None:
        if absent:
            self._turn = self._opened().without(absent, {name: self.directory.place(name) for name in absent})

    def _compile_close(self, turn: Turn) -> None:
        """Compile the end of the round while the clients work, if it is the first of a fleet of this size."""
        (server, state), shape = self._serving(), (self._num_places, turn.cohort.ids.shape[0])
        if shape != self._compiled:
            self._compiled, rows = shape, self._updates(shape[1]).blank()
            inputs = (server, state, turn.view, turn.cohort, self._tally, *rows)
            thread = ThreadPoolExecutor(1)
            self._compiling = thread.submit(lambda: rounds.close.lower(*inputs).compile())
            thread.shutdown(wait=False)

    def _close(self, replies: Mapping[str, Reply]) -> rounds.ClosedRound:
        if self._compiling is not None:
            wait([self._compiling])
            self._compiling = None
        turn, (server, state) = self._opened(), self._serving()
        rows = self._updates(turn.cohort.ids.shape[0]).filled(turn, replies)
        return jax.block_until_ready(rounds.close(server, state, turn.view, turn.cohort, self._tally, *rows))

    def restore(self, t: int, fleet: Sequence[tuple[str | None, float]], arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from the `named_leaves` after t rounds; `fleet` is the client at each place, and its importance."""
        if fleet:
            self.directory = Directory(name for name, _ in fleet)
            self.importance = tuple(float(worth) for _, worth in fleet)
            self._state, self._tally = places.from_leaves(self._serve(), self._params, len(fleet), arrays)
        elif arrays:
            raise ValueError("it holds a state, but no clients")
        self.t = t

    def note_gap(self) -> None:
        """Let the next round follow on none: between two runs of the server clients may have come and gone."""
        if self._server is not None and self._state is not None:
            self._state = replace(self._state, facts=self._server.facts.open(self._state.facts))

    def named_leaves(self) -> Arrays:
        """Every array of the state and of the sums per client, by its path; without the vacant places at the end."""
        if self._server is None or self._state is None:
            return {}
        return places.leaves_of(self._server, self._state, self._tally, len(self.importance))

    @property
    def places(self) -> list[int]:
        """The place of each client, in the order of the directory's names; vacant places are left out."""
        return [self.directory.place(name) for name in self.directory.names]

    def sums(self) -> dict[str, np.ndarray]:
        """Sums per client over the rounds so far, in the order of the directory's names, as in a simulation."""
        return {name: np.asarray(values)[self.places] for name, values in self._tally.summary(self.t).items()}

    def _admits_fleet(self, new: Mapping[str, float]) -> bool:
        worths = [worth for worth in self.importance if worth > 0]
        try:
            self.strategy.check(Fleet(jax.device_put(np.array([*worths, *new.values()], np.float32))))
        except ValueError as error:
            log.warning("%d clients cannot join the fleet of %d yet: %s", len(new), len(worths), error)
            return False
        return True

    def _set_importance(self, by_place: Mapping[int, float], left: bool = False) -> None:
        """Change who is at these places, and how much each counts; nothing of those before them remains."""
        worths = dict(enumerate(self.importance)) | dict(by_place)
        self.importance = tuple(worths[place] for place in sorted(worths))
        before, server, state = self._tally.last.shape[0], self._serve(), self._state
        if state is None:  # with arrays of its own, since the next round donates them
            state = _copied(server.init(self._params))
        if before < server.fleet.num_clients:
            state, self._tally = server.grow(state, before), self._tally.grow(server.fleet.num_clients)
        inputs = (server, self._tally, self._now(), self._mask(by_place), left)
        self._state, self._tally = rounds.renew(inputs, state)

    def _serve(self) -> Server:
        """The server of the fleet as it is now."""
        count = self._num_places
        slots = max(1, self.strategy.capacity(count))
        if self._server is not None and self._server.slots != slots:
            self._room = None
        fleet = places.fleet_of(self.directory.by_place, self.importance, count)
        self._server = Server(fleet, self.strategy, self.settings, slots)
        return self._server

    @property
    def _num_places(self) -> int:
        return places.num_places(self.strategy, len(self.importance))

    def _mask(self, chosen: Collection[int]) -> Array:
        """The places as a mask over all of them, vacant ones included."""
        mask = np.zeros(self._num_places, bool)
        mask[list(chosen)] = True
        return jnp.asarray(mask)

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
        by_place = np.zeros(self._num_places, np.float32)
        for name, loss in losses.items():
            by_place[self.directory.place(name)] = loss
        return jnp.asarray(by_place)

    def _starts(self, cohort: Cohort) -> Callable[[int], Arrays]:
        """A function from a slot to the model from which its client starts."""
        if self.strategy.starts_shared:
            shared = self.arrays()
            return lambda slot: shared
        (server, state), ids = self._serving(), np.asarray(cohort.ids)
        room = self._updates(len(ids))
        for first in range(0, int(np.sum(cohort.active)), _TOGETHER):
            chosen = np.resize(ids[first : first + _TOGETHER], _TOGETHER)  # always the same number: one program
            room.put(first, jax.device_get(rounds.starts(server, state, jnp.asarray(chosen, jnp.int32))))
        return lambda slot: self.layout.to_arrays(room.row(slot), copy=False)


def _copied(state: State) -> State:
    """A state of its own, since the next round donates its arrays."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), state)
