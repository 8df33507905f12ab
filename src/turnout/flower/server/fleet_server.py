"""The pure server for a fleet of real nodes: its model, and who counts how much."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from turnout.flower.fleet.directory import Directory
from turnout.flower.server import compiled, places
from turnout.flower.server.compiled import Renewal
from turnout.flower.server.demands import Demands, for_real_nodes
from turnout.flower.server.places import Places
from turnout.flower.server.turn import Turn
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.replies import Goodbye
from turnout.server.places import grow, is_sum, words_in
from turnout.server.server import Server, ServerState
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.strategies.base import Strategy
from turnout.types import Answer, Array

log = logging.getLogger("turnout.flower")
State = TypeVar("State")


class FleetServer:
    """Everything that a checkpoint holds, and how clients join it, leave it, and count; `Driver` adds the rounds."""

    def __init__(
        self, strategy: Strategy, arrays: Mapping[str, np.ndarray], settings: ServerSettings | None = None
    ) -> None:
        self.strategy = strategy
        self.demands = Demands.of(strategy)
        self.settings = for_real_nodes(settings, strategy)
        self.layout = Layout.of(arrays)
        self.places = Places(strategy)
        self.t = 0
        self.epoch = 0  # round from which on updates count, where clients remember what they have sent
        self.epoch_of_model = 0  # how often the model was changed between two rounds
        self.left: set[str] = set()  # clients that have left for good, unless they have joined anew
        self._params = self.layout.to_params(arrays)
        self._server: Server | None = None
        self._state: ServerState | None = None
        self._tally = Tally.empty(0)
        self._turn: Turn | None = None  # the round that is open
        self._sizes: dict[str, float] = {}  # by client, where replies tell them
        self._reweighed = False  # in this epoch

    @property
    def directory(self) -> Directory:
        """The clients by name and place, and their present nodes."""
        return self.places.directory

    @property
    def importance(self) -> tuple[float, ...]:
        """How much the client at each place counts, zero where one has left."""
        return self.places.importance

    @property
    def state(self) -> ServerState | None:
        """All that the server carries from round to round, None before the first client has joined.

        It has one row per place, vacant places included. Its arrays are invalid once the next round opens, or clients
        join or leave: copy what is needed later.
        """
        return self._state

    @property
    def is_open(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._turn is not None

    def arrays(self) -> Arrays:
        """The server's model, from which clients start unless the strategy gives them others."""
        return self.layout.to_arrays(self._params if self._state is None else self._state.params)

    def model(self) -> Arrays:
        """The model to evaluate and to deploy."""
        if self._server is None or self._state is None or not len(self.directory):
            return self.arrays()
        return self.layout.to_arrays(compiled.model(self._server, self._state))

    def has(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether this is the server's model, in all that is trained; arrays of another form are an error."""
        return self.layout.is_same(arrays, self.model())

    def adopt(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Go on from a model that was changed since the last round, as wrappers for differential privacy do.

        Returns whether it is another one. Arrays that are not trained stay as they are. A strategy that sets the model
        itself cannot go on from another one.
        """
        if self.has(arrays):
            return False
        if self.strategy.plain_step:
            name = self.demands.name
            raise ValueError(f"{name} sets the model itself, so nothing around it may change the model between rounds")
        if not all(np.isfinite(arrays[name]).all() for name in self.layout.trained):
            raise ValueError("the model handed to the strategy holds a value that is not finite")
        params = self.layout.to_params(arrays)
        self.epoch_of_model += 1
        if self._state is None:
            self._params = params
        else:
            self._state = replace(self._state, params=params)
        return True

    @property
    def tally(self) -> Tally:
        """Sums per place."""
        return self._tally

    def replace_state(self, state: ServerState) -> None:
        """Go on with another state of the same step."""
        self._state = state

    def accept(self, state: ServerState, tally: Tally) -> None:
        """Go on after a step."""
        self._state, self._tally, self.t = state, tally, self.t + 1

    def keep(self) -> ServerState | None:
        """A copy of the state, to go back to; not to be taken while a round is open."""
        return None if self._state is None else _copy(self._state)

    def go_back(self, kept: ServerState) -> None:
        """Go on from the model, optimizer and strategy of a former state; what is known of the clients stays."""
        server, state = self.serving()
        former = len(jax.tree.leaves(kept.facts)[0]) if jax.tree.leaves(kept.facts) else len(self.importance)
        self._state = _copy(replace(grow(server, kept, former), facts=state.facts, rest=state.rest))
        self.epoch_of_model += 1
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Where clients remember what they have sent: forget the sum of it, and let all of them send in full again.

        Only the client can take its share out of that sum. So a client that has lost its memory, left for good, or
        counts differently now would leave a part of it there for ever.
        """
        if not self.demands.memory or self._server is None or self._state is None:
            return
        log.info("a new epoch begins after round %d: every client sends its update in full", self.t)
        empty = self.strategy.init(self._server.fleet, self._state.params)
        self._state, self.epoch = _copy(replace(self._state, strategy=empty)), self.t

    def join(self, importance: Mapping[str, float]) -> tuple[str, ...]:
        """Add new clients to the fleet, with the importance of each; returns those of them that are in it now.

        Clients that are in the fleet already keep their importance. If the strategy cannot serve the larger fleet,
        nobody joins, and a warning says why: some strategies need a certain number of clients to begin with.
        """
        new = {name: float(worth) for name, worth in importance.items() if name not in self.directory}
        for name, worth in new.items():
            if not places.can_count(worth):
                raise ValueError(f"client {name!r} should count for {worth}; it must be {places.WORTHS}")
        if new:
            try:
                self.places.check(new)
            except ValueError as error:
                log.warning("%d clients cannot join the fleet of %d yet: %s", len(new), len(self.directory), error)
            else:
                self._reassign(dict(zip(self.directory.join(new), new.values(), strict=True)), left=False)
                self.left -= new.keys()
        return tuple(name for name in importance if name in self.directory)

    def retire(self, names: Collection[str], goodbyes: Mapping[str, Goodbye] | None = None) -> None:
        """Let clients leave for good: nothing of them counts any more, and newcomers get their places.

        `goodbyes` are what some of them have said, where clients remember what they have sent. If one leaves without,
        only a new epoch takes its word out of the sum.
        """
        if self._turn is not None:
            raise RuntimeError(f"round {self.t} is still open: clients can leave once it is closed")
        said, acknowledged = goodbyes if goodbyes and self._can_take_back() else {}, self.acknowledged_rounds()
        leaving = dict(zip(names, self.places.find(names), strict=True))
        for name in leaving.keys() & said.keys():
            if self.demands.numbers and not acknowledged[leaving[name]]:
                continue  # it has no word, or has taken it back before
            self._take_back(leaving[name], said[name])
        self.left |= leaving.keys()
        if vacant := self.directory.leave(names):
            self._reassign(dict.fromkeys(vacant, 0.0), left=True)
            if any(acknowledged[place] for name, place in leaving.items() if name not in said):
                self.begin_epoch()

    def _can_take_back(self) -> bool:
        """Whether a goodbye is of use: a sum that is no `Words` cannot give a word back, and must begin anew."""
        _, state = self.serving()
        return not self.demands.memory or any(map(is_sum, words_in(state.strategy)))

    def _take_back(self, place: int, said: Goodbye) -> None:
        server, state = self.serving()
        numbers = None if said.numbers is None else jnp.asarray(said.numbers)
        answer = Answer(self.layout.to_params(said.word), numbers=numbers)
        self._state = compiled.take_back(server, state, jnp.asarray(place, jnp.int32), answer)

    def acknowledged_rounds(self) -> np.ndarray:
        """The round of the last update that arrived in this epoch, counted from 1, by place; 0 before the first."""
        last = np.asarray(self._tally.last) + 1
        return np.where((np.asarray(self._tally.arrived) > 0) & (last > self.epoch), last, 0)

    def _reassign(self, importance: Mapping[int, float], left: bool) -> None:
        """Change who is at these places, and how much each counts; nothing of those before them remains."""
        self.places.assign(importance)
        before, server, state = self._tally.last.shape[0], self._serve(), self._state
        if state is None:  # with arrays of its own, since the next round donates them
            state = _copy(server.init(self._params))
        if before < server.fleet.num_clients:
            state = grow(server, state, before)
            self._tally = self._tally.grow(server.fleet.num_clients)
        renewal = Renewal(server, self._tally, self.now(), self.places.mask(importance), left)
        self._state, self._tally = compiled.renew(renewal, state)

    def weigh(self, importance: Mapping[str, float]) -> None:
        """Change how much clients of the fleet count, in the open round too; those not named count as before."""
        if self._server is None or not self.places.weigh(importance):
            return
        before, after = self._server.fleet, self._serve().fleet
        self._reweighed = True
        if self._turn is not None:
            self._turn = self._turn.reweigh(before, after)

    def take_reweighed(self) -> bool:
        """Whether clients count differently since this was last asked, and their memories do not know it.

        Clients that weigh themselves are told what they count by with every order.
        """
        was, self._reweighed = self._reweighed, False
        return was and not self.demands.numbers

    def weigh_by_size(self, sizes: Mapping[str, float]) -> None:
        """Let clients count by the sizes of their data; those that have not told theirs count as the median."""
        self._sizes |= {name: float(size) for name, size in sizes.items() if name in self.directory}
        if self._sizes:
            usual = float(np.median(list(self._sizes.values())))
            self.weigh({name: self._sizes.get(name, usual) for name in self.directory.names})

    def restore(self, t: int, fleet: Sequence[tuple[str | None, float]], arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from the `named_leaves` after t rounds; `fleet` is the client at each place, and its importance."""
        if fleet:
            self.places = Places(self.strategy, fleet)
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

    def sums(self) -> dict[str, np.ndarray]:
        """Sums per client over the rounds so far, in the order of the directory's names, as in a simulation."""
        return {name: np.asarray(values)[self.places.taken] for name, values in self._tally.summary(self.t).items()}

    def _serve(self) -> Server:
        """Set up the server of the fleet as it is now."""
        slots = max(1, self.strategy.capacity(self.places.count))
        self._server = Server(self.places.fleet(), self.strategy, self.settings, slots)
        return self._server

    def serving(self) -> tuple[Server, ServerState]:
        if self._server is None or self._state is None:
            raise RuntimeError("no client has joined")
        return self._server, self._state

    def now(self) -> Array:
        return jnp.asarray(self.t, jnp.int32)


def _copy(state: State) -> State:
    """A state with arrays of its own, since the next round donates them."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), state)
