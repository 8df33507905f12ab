"""A round on real nodes: the orders in it, the buffer that collects its updates, and its record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.flower.server.compiled import Arrivals, ClosedRound, Opened
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.replies import Reply
from turnout.types import Array, Cohort, Fleet, PyTree, View

log = logging.getLogger("turnout.flower")

_TOGETHER = 8  # clients whose own start models are computed at once


@dataclass(frozen=True)
class Order:
    """What one client is asked to do in a round."""

    client: str
    find_start: Callable[[], Arrays] = field(repr=False)
    rate: float  # η times the step scale
    scale: float  # factor of its step length, in `rate` already
    weight: float  # factor of its update in the direction, as known before the replies
    seed: int  # 32 bits that belong to this client and round
    upload_seed: int  # 32 more, for the transform of its update
    acknowledged: int  # round of its last update that arrived, counted from 1; 0 before the first
    shared: PyTree = None  # what all clients are sent besides the model, None if nothing
    importance: float = 1.0  # α of the client, by which those count themselves that send changes of their own words

    @property
    def lr(self) -> float:
        """η of the round, without the step scale."""
        return self.rate / self.scale if self.scale else self.rate

    @property
    def start(self) -> Arrays:
        """The model to start from, not to be written to; good until the reply of this client is checked."""
        return self.find_start()


@dataclass(frozen=True)
class RoundRecord:
    """The result of a round."""

    t: int
    available: tuple[str, ...]
    asked: tuple[str, ...]
    uploads: tuple[str, ...]  # asked, available, and admitted if the strategy admits only some
    arrived: tuple[str, ...]
    weights: dict[str, float]  # of the updates that arrived
    steady: bool  # false if the replies would have made the model infinite, and all were dropped
    unknown: tuple[str, ...] = ()  # listed, but not asked or still busy: available or not, nobody knows
    members: tuple[str, ...] = ()  # the whole fleet
    late: tuple[str, ...] = ()  # arrived with an update that was asked for in an earlier round
    steps: float = 0.0  # local work that was reported
    loss: float | None = None  # mean of the losses reported with the updates, weighted by the target
    bytes_uploaded: int = 0  # in all arrays that were received, dropped ones included

    def summary(self) -> dict[str, int | float]:
        """Numbers of the round, named as in Flower's log."""
        counts = {name: len(getattr(self, name)) for name in ("available", "asked", "uploads", "arrived", "late")}
        sums = {"weight-sum": sum(self.weights.values()), "bytes-uploaded": self.bytes_uploaded}
        return {**counts, **sums} | ({} if self.loss is None else {"loss": self.loss})


@dataclass(frozen=True)
class Turn:
    """A round that is open."""

    view: View
    cohort: Cohort
    orders: dict[str, Order]
    slots: dict[str, int]
    available: tuple[str, ...]
    admitted: bool = False
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, opened: Opened, orders: Mapping[int, Order], available: Collection[str]) -> Turn:
        """The round with these orders by slot, in which everything is known so far."""
        by_client = {order.client: order for order in orders.values()}
        slots = {order.client: slot for slot, order in orders.items()}
        turn = cls(opened.view, opened.cohort, by_client, slots, tuple(available))
        here = np.asarray(opened.view.available)
        return turn.observe((), np.zeros_like(here), here, 1.0)

    def names_in(self, mask: Any) -> tuple[str, ...]:
        """The clients whose slots are marked."""
        chosen = np.asarray(mask)
        return tuple(name for name, slot in self.slots.items() if chosen[slot])

    def without(self, absent: Collection[str], places: Collection[int]) -> Turn:
        """The same round without clients, at these places, that turned out not to be available."""
        gone = np.zeros(self.cohort.num_clients, bool)
        gone[list(places)] = True
        here = ~jnp.asarray(gone)
        view = replace(self.view, available=self.view.available & here)
        cohort = replace(self.cohort, uploading=self.cohort.uploading & self.cohort.take(here))
        return replace(self, view=view, cohort=cohort, available=tuple(n for n in self.available if n not in absent))

    def observe(self, unknown: Collection[str], doubted: np.ndarray, listed: np.ndarray, span: float) -> Turn:
        """The same round, of this length, in which some clients are listed, and nothing is known of some of these.

        `doubted` and `listed` are masks over the places.
        """
        masks = {"watched": jnp.asarray(~doubted), "listed": jnp.asarray(listed)}
        view = replace(self.view, **masks, span=jnp.asarray(span, jnp.float32))
        certain = tuple(name for name in self.available if name not in unknown)
        return replace(self, view=view, available=certain, unknown=tuple(unknown))

    def reweigh(self, before: Fleet, after: Fleet) -> Turn:
        """The same round, in which clients count as in another fleet; weights follow their share of the objective."""
        ratio = after.target / jnp.where(before.target > 0, before.target, 1.0)
        cohort = replace(self.cohort, weight=self.cohort.weight * self.cohort.take(ratio))
        return replace(self, view=replace(self.view, importance=after.importance), cohort=cohort)

    def lengths(self, norms: Mapping[str, float]) -> tuple[Cohort, Array]:
        """The clients of the cohort that reported the length of their update, and the lengths."""
        here = np.zeros(self.cohort.ids.shape[0], bool)
        lengths = np.zeros(here.shape, np.float32)
        for name, norm in norms.items():
            if name in self.slots:
                here[self.slots[name]], lengths[self.slots[name]] = True, norm
        return replace(self.cohort, uploading=self.cohort.uploading & jnp.asarray(here)), jnp.asarray(lengths)

    def record(
        self, t: int, ended: ClosedRound, replies: Mapping[str, Reply], worths: Mapping[str, float]
    ) -> RoundRecord:
        """The result of the round; `worths` is the importance of each client that was asked."""
        arrived, weight = self.names_in(ended.cohort.arrived), np.asarray(ended.closed.weight)
        weights = {name: float(weight[self.slots[name]]) for name in arrived}
        losses = {name: loss for name in arrived if (loss := replies[name].loss) is not None}
        total = sum(worths[name] for name in losses)
        loss = sum(worths[name] * losses[name] for name in losses) / total if losses else None
        uploads, asked = self.names_in(ended.cohort.uploading), tuple(self.orders)
        return RoundRecord(t, self.available, asked, uploads, arrived, weights, True, self.unknown, loss=loss)


def orders_of(
    opened: Opened,
    names: Sequence[str | None],
    importance: Sequence[float],
    acknowledged: np.ndarray,
    find_start: Callable[[int], Arrays],
) -> dict[int, Order]:
    """Orders by slot; `names`, `importance` and `acknowledged` are by place."""
    cohort, rate = opened.cohort, np.float32(opened.rate)
    shared = jax.device_get(opened.shared)  # once for all
    columns = (cohort.ids, cohort.scale, cohort.weight, opened.seeds, opened.upload_seeds)
    orders = {}
    for slot, (place, scale, weight, *seeds) in enumerate(zip(*map(np.asarray, columns), strict=True)):
        if place < len(names) and (name := names[place]) is not None:
            seed, upload_seed, last = (int(number) for number in (*seeds, acknowledged[place]))
            factors = (float(rate * scale), float(scale), float(weight))
            own = (seed, upload_seed, last, shared, importance[place])
            orders[slot] = Order(name, partial(find_start, slot), *factors, *own)
    return orders


class UpdateBuffer:
    """One row per slot, reused in every round: to allocate a gigabyte is slower than to fill it.

    If each client starts from its own model, a row first holds that model, and the update once it has arrived. Where
    clients send a second vector, it has rows of its own.
    """

    def __init__(self, layout: Layout, slots: int, has_second: bool = False, num_numbers: int = 0) -> None:
        self._rows = layout.rows(slots)
        self._second = layout.rows(slots) if has_second else None
        self._numbers = np.zeros((slots, num_numbers), np.float32) if num_numbers else None
        self.slots = slots
        self._written: set[int] = set()

    def row(self, slot: int) -> Arrays:
        """The arrays of one slot, to be written to."""
        self._written.add(slot)
        return {name: rows[slot, ...] for name, rows in self._rows.items()}  # a view, also for scalars

    def second_row(self, slot: int) -> Arrays:
        """The same for the second vector."""
        assert self._second is not None  # the strategy's clients send one
        self._written.add(slot)
        return {name: rows[slot, ...] for name, rows in self._second.items()}

    def put(self, first: int, models: Mapping[str, Any]) -> None:
        """Write models to the slots from `first` on; those beyond the last slot are left out."""
        for name, rows in self._rows.items():
            end = min(first + models[name].shape[0], self.slots)
            rows[first:end] = models[name][: end - first]
            self._written.update(range(first, end))

    def put_starts(self, ids: np.ndarray, count: int, compute: Callable[[np.ndarray], Mapping[str, Any]]) -> None:
        """Write the start models of the first `count` slots, whose clients are at the places `ids`."""
        for first in range(0, count, _TOGETHER):
            chosen = np.resize(ids[first : first + _TOGETHER], _TOGETHER)  # always the same number: one program
            self.put(first, compute(chosen))

    def fill(self, turn: Turn, replies: Mapping[str, Reply]) -> Arrivals:
        """What arrived; rows are exactly zero where nothing did."""
        uploading, (losses, reach, came, age, lr) = np.asarray(turn.cohort.uploading), self._columns()
        if self._numbers is not None:
            self._numbers = np.zeros_like(self._numbers)  # that of the round before may still be read
        for name, reply in replies.items():
            slot = turn.slots.get(name)
            if slot is None:
                log.warning("%s was not asked; its reply is dropped", name)
            elif uploading[slot]:
                losses[slot], reach[slot], came[slot] = reply.loss or 0.0, reply.reach, True
                age[slot], lr[slot] = reply.age, reply.lr or 0.0
                _write(self.row(slot), reply.update)
                if self._numbers is not None:
                    self._numbers[slot] = reply.numbers
                if self._second is not None:
                    _write(self.second_row(slot), reply.second or {})
        for slot in [slot for slot in self._written if not came[slot]]:
            for rows in (*self._rows.values(), *(self._second or {}).values()):
                rows[slot] = 0.0
            self._written.discard(slot)
        # Not `asarray`, which copies; the rows are not written to before the round is closed.
        return Arrivals(*jax.device_put((self._rows, losses, reach, came, age, lr, self._second, self._numbers)))

    def blank(self) -> Arrivals:
        """What `fill` returns, for a compiler: only shapes are valid, since rows are written to at the same time."""
        return Arrivals(*jax.device_put((self._rows, *self._columns(), self._second, self._numbers)))

    def _columns(self) -> tuple[np.ndarray, ...]:
        """Losses, reach, whether it came, age and η, one entry per slot."""
        losses, reach, age, lr = np.zeros((4, self.slots), np.float32)
        return losses, reach, np.zeros(self.slots, bool), age, lr


def _write(row: Arrays, vector: Mapping[str, np.ndarray]) -> None:
    """Write a vector to its row, unless it is there already."""
    for name, part in row.items():
        if not np.may_share_memory(part, vector[name]):
            part[...] = vector[name]
