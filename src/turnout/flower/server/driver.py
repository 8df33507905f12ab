"""A server for real nodes: the pure server driven one round at a time, from plain numpy replies."""

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.declarations import Seed, checked
from turnout.flower.server import compiled
from turnout.flower.server.compiled import Opening
from turnout.flower.server.fleet_server import FleetServer
from turnout.flower.server.turn import Order, RoundRecord, Turn, UpdateBuffer, orders_of
from turnout.flower.wire.layout import Arrays
from turnout.flower.wire.replies import Reply
from turnout.flower.wire.side import check_shared
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies.base import Strategy
from turnout.types import Array, Cohort, PyTree

log = logging.getLogger("turnout.flower")


def _check_arrays(arrays: Mapping[str, Any]) -> None:
    for name, values in arrays.items():
        if (
            not isinstance(name, str)
            or not isinstance(values, np.ndarray | np.generic)
            or values.dtype.kind in "OUScMm"
        ):
            given = type(values).__name__
            raise TypeError(f"arrays must be a dict of arrays of numbers by name, but {name!r} is {given}")


class Driver(FleetServer):
    """The one object with state: model, strategy state, estimates, round, and the directory of clients.

    A round is `open_round`, the clients' work, `close_round`. Random keys are folded from the seed, the round and the
    client's place, so a simulation with the same absences gives the same model.
    """

    @checked
    def __init__(
        self,
        strategy: Strategy,
        arrays: Mapping[str, Any],  # of numpy
        *,
        local: Local | None = None,
        settings: ServerSettings | None = None,
        seed: Seed = 0,
    ) -> None:
        _check_arrays(arrays)
        super().__init__(strategy, arrays, settings)
        self.local = Local() if local is None else local
        self.seed = seed
        self._root = jr.key(seed)
        self._buffer: UpdateBuffer | None = None
        self._compiled: tuple[int, int] | None = None  # places and slots for which the end of a round is compiled
        self._compiling: Future | None = None
        self._shares_well = False  # clients can read what the strategy shares with them, as the first round has shown

    def open_round(self, available: Collection[str], losses: Mapping[str, float] | None = None) -> list[Order]:
        """One order per selected client, given who is available; `losses` are answers to a probe, if there was one."""
        if self._turn is not None:
            raise RuntimeError(f"round {self.t} is still open: close it first")
        if self.demands.losses:
            if losses is None:
                raise ValueError(f"{self.demands.name} needs the loss of every available client")
            available = [name for name in available if name in losses]
        here = {self.directory.place(name): name for name in available}
        if self._server is None or self._state is None or not len(self.directory):
            return []
        column = self.places.column(losses) if losses is not None and self.demands.losses else None
        opening = Opening(self._server, self.local_now(), self.now(), self.places.mask(here), column, self._root)
        opened = compiled.open_round(opening, self._state)
        self._state = opened.state
        if int(opened.cohort.overflow) != 0:
            raise RuntimeError(f"{self.demands.name} asked {int(opened.cohort.overflow)} clients too many")
        self.check_shared(opened.shared)
        find_start = self._find_starts(opened.cohort)
        orders = orders_of(opened, self.directory.by_place, self.importance, self.acknowledged_rounds(), find_start)
        self._turn = turn = Turn.of(opened, orders, [here[place] for place in sorted(here)])
        if (shape := (self.places.count, len(turn.cohort.ids))) != self._compiled:  # compile while the clients work
            blank, self._compiled = self._updates(turn.cohort).blank(), shape
            arguments = (self._server, self._state, turn.view, turn.cohort, self._tally, blank)
            self._compiling = compiled.compile_close(*arguments)
        return list(orders.values())

    def probe_seeds(self, names: Collection[str]) -> dict[str, int]:
        """32 random bits per client, for its probe in this round."""
        chosen = jnp.asarray(self.places.find(names), jnp.int32)
        seeds = np.asarray(compiled.probe_seeds(self._root, self.now(), chosen)) if len(names) else []
        return {name: int(seed) for name, seed in zip(names, seeds, strict=True)}

    def admit_round(self, norms: Mapping[str, float], absent: Collection[str] = ()) -> tuple[str, ...]:
        """Clients that may upload, given the lengths of the updates; a client without one is out of this round."""
        self._leave_out(absent)
        turn, (server, state) = self._open_turn(), self.serving()
        cohort, lengths = turn.lengths(norms)
        cohort = compiled.admit(server, state, turn.view, cohort, lengths, self._root)
        self._turn = replace(turn, cohort=cohort, admitted=True)
        return self._turn.names_in(cohort.uploading)

    def room_for(self, name: str) -> Arrays:
        """The arrays to write a client's update to, so that it need not be copied."""
        turn = self._open_turn()
        return self._updates(turn.cohort).row(turn.slots[name])

    def second_room_for(self, name: str) -> Arrays:
        """The same for the second vector of its answer."""
        turn = self._open_turn()
        return self._updates(turn.cohort).second_row(turn.slots[name])

    def close_round(
        self,
        replies: Mapping[str, Reply],
        absent: Collection[str] = (),
        worked: Mapping[str, float] | None = None,
        *,
        unknown: Collection[str] = (),
        listed: Collection[str] | None = None,
        span: float = 1.0,
        forgotten: Collection[str] = (),
    ) -> RoundRecord:
        """Update the model with the replies.

        `absent` are clients that were listed and asked, but gave no sign: they count as not available, since only a
        reply proves that a client was there. Clients that are neither absent nor in `replies` were available, but their
        upload failed. `worked` is the reach of clients that have trained, but need not upload. `unknown` are clients of
        which nothing is known in this round, although they are `listed`; if not given, that are the unknown and those
        with which the round was opened. `span` is its length in usual rounds. `forgotten` are clients that have lost
        their memory of what they have sent: their replies cannot count, and a new epoch begins.
        """
        if self._turn is None:
            self.t += 1
            return RoundRecord(self.t - 1, (), (), (), (), {}, True)
        here = self._listed_mask(self._turn, unknown, listed)
        self._leave_out(absent)
        self._turn = self._open_turn().observe(unknown, self._mask_of(unknown), here, span)
        if self.demands.lengths and not self._turn.admitted:
            self.admit_round({name: reply.norm for name, reply in replies.items()})
        turn, ended = self._turn, self._close(replies)
        if not (steady := bool(ended.steady)):
            log.error("round %d would make the model infinite: all its %d replies are dropped", self.t, len(replies))
            ended = self._close({})
        reach = {**(worked or {})} | {name: reply.reach for name, reply in replies.items() if name in turn.slots}
        record = turn.record(self.t, ended, replies, {name: self.places.worth(name) for name in turn.orders})
        self._state = ended.closed.state if bool(ended.steady) else self._state
        self._tally, self._turn, self.t = ended.closed.tally, None, self.t + 1
        if self.take_reweighed() or forgotten:
            self.begin_epoch()
        return replace(record, steady=steady, steps=float(sum(reach.values())))

    @property
    def root(self) -> Array:
        """Of all random keys."""
        return self._root

    def check_shared(self, shared: PyTree) -> None:
        """Raise a ValueError if clients cannot read what the strategy shares with them; the first time only."""
        if not self._shares_well:
            check_shared(self.strategy, shared, self.serving()[1].params)
            self._shares_well = True

    def _listed_mask(self, turn: Turn, unknown: Collection[str], listed: Collection[str] | None) -> np.ndarray:
        if listed is None:
            return np.asarray(turn.view.listed) | self._mask_of(unknown)
        return self._mask_of({*listed, *unknown})

    def _mask_of(self, names: Collection[str]) -> np.ndarray:
        return np.asarray(self.places.mask(self.places.find(names)))

    def _leave_out(self, absent: Collection[str]) -> None:
        if absent:
            self._turn = self._open_turn().without(absent, self.places.find(absent))

    def _close(self, replies: Mapping[str, Reply]) -> compiled.ClosedRound:
        if self._compiling is not None:
            wait([self._compiling])
            self._compiling = None
        turn, (server, state) = self._open_turn(), self.serving()
        arrivals = self._updates(turn.cohort).fill(turn, replies)
        return jax.block_until_ready(compiled.close(server, state, turn.view, turn.cohort, self._tally, arrivals))

    def _open_turn(self) -> Turn:
        if self._turn is None:
            raise RuntimeError(f"round {self.t} is not open: open it first")
        return self._turn

    def local_now(self) -> Local:
        """The clients' optimizer, with a learning rate that may change from round to round without a new program."""
        rate = self.local.learning_rate
        return self.local if callable(rate) else replace(self.local, learning_rate=jnp.asarray(rate, jnp.float32))

    def _updates(self, cohort: Cohort) -> UpdateBuffer:
        slots = cohort.ids.shape[0]
        if self._buffer is None or self._buffer.slots != slots:
            self._buffer = UpdateBuffer(self.layout, slots, self.demands.second, self.demands.numbers)
        return self._buffer

    def _find_starts(self, cohort: Cohort) -> Callable[[int], Arrays]:
        """A function from a slot to the model from which its client starts."""
        if self.demands.shared_start:
            shared = self.arrays()
            return lambda slot: shared
        (server, state), buffer = self.serving(), self._updates(cohort)

        def compute(chosen: np.ndarray) -> Arrays:
            return jax.device_get(compiled.starts(server, state, jnp.asarray(chosen, jnp.int32)))

        buffer.put_starts(np.asarray(cohort.ids), int(np.sum(cohort.uploading)), compute)
        return lambda slot: self.layout.to_arrays(buffer.row(slot), copy=False)
