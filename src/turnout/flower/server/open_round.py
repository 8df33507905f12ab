"""An open round, the orders in it, and the buffer in which its updates are collected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.flower.server.compiled_round import ClosedRound, Order, RoundRecord
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.replies import Reply
from turnout.types import Array, Cohort, Fleet, Params, View

log = logging.getLogger("turnout.flower")


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

    def named(self, mask: Any) -> tuple[str, ...]:
        """The clients whose slots are marked."""
        chosen = np.asarray(mask)
        return tuple(name for name, slot in self.slots.items() if chosen[slot])

    def without(self, absent: Collection[str], places: Mapping[str, int]) -> Turn:
        """The same round without clients that turned out not to be available."""
        gone = np.zeros(self.cohort.num_clients, bool)
        gone[[places[name] for name in absent]] = True
        here = ~jnp.asarray(gone)
        view = replace(self.view, available=self.view.available & here)
        cohort = replace(self.cohort, active=self.cohort.active & self.cohort.take(here))
        return replace(self, view=view, cohort=cohort, available=tuple(n for n in self.available if n not in absent))

    def observed(self, unknown: Collection[int], names: Collection[str], span: float) -> Turn:
        """The same round, in which nothing is known of the clients at these places, with these names."""
        watched = np.ones(self.cohort.num_clients, bool)
        watched[list(unknown)] = False
        view = replace(self.view, watched=jnp.asarray(watched), span=jnp.asarray(span, jnp.float32))
        certain = tuple(name for name in self.available if name not in names)
        return replace(self, view=view, available=certain, unknown=tuple(names))

    def reweighed(self, before: Fleet, after: Fleet) -> Turn:
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
        return replace(self.cohort, active=self.cohort.active & jnp.asarray(here)), jnp.asarray(lengths)

    def record(
        self, t: int, ended: ClosedRound, replies: Mapping[str, Reply], worths: Mapping[str, float]
    ) -> RoundRecord:
        """The result of the round; `worths` is the importance of each client that was asked."""
        arrived, weight = self.named(ended.cohort.arrived), np.asarray(ended.closed.weight)
        weights = {name: float(weight[self.slots[name]]) for name in arrived}
        losses = {name: loss for name in arrived if (loss := replies[name].loss) is not None}
        total = sum(worths[name] for name in losses)
        loss = sum(worths[name] * losses[name] for name in losses) / total if losses else None
        uploads, asked = self.named(ended.cohort.active), tuple(self.orders)
        return RoundRecord(t, self.available, asked, uploads, arrived, weights, True, self.unknown, loss=loss)


def orders_of(
    cohort: Cohort,
    words: tuple[Array, Array],
    rate: float,
    names: Sequence[str | None],
    acknowledged: np.ndarray,
    find_start: Callable[[int], Arrays],
) -> dict[int, Order]:
    """Orders by slot; `words` are two seeds per slot, `names` and `acknowledged` are by place."""
    columns = zip(*(np.asarray(part) for part in (cohort.ids, cohort.scale, cohort.weight, *words)), strict=True)
    orders = {}
    for slot, (place, scale, weight, *seeds) in enumerate(columns):
        if place < len(names) and (name := names[place]) is not None:
            step, factors = float(np.float32(rate) * scale), (float(scale), float(weight))
            train, upload, last = (int(number) for number in (*seeds, acknowledged[place]))
            orders[slot] = Order(name, partial(find_start, slot), step, *factors, train, upload, last)
    return orders


class UpdateRoom:
    """One row per slot, reused in every round: to allocate a gigabyte is slower than to fill it.

    If each client starts from its own model, a row first holds that model, and the update once it has arrived.
    """

    def __init__(self, layout: Layout, slots: int) -> None:
        self._rows = layout.rows(slots)
        self._slots = slots
        self._written: set[int] = set()

    def row(self, slot: int) -> Arrays:
        """The arrays of one slot, to be written to."""
        self._written.add(slot)
        return {name: rows[slot, ...] for name, rows in self._rows.items()}  # a view, also for scalars

    def put(self, first: int, models: Mapping[str, Any]) -> None:
        """Write models to the slots from `first` on; those beyond the last slot are left out."""
        for name, rows in self._rows.items():
            end = min(first + models[name].shape[0], self._slots)
            rows[first:end] = models[name][: end - first]
            self._written.update(range(first, end))

    def filled(self, turn: Turn, replies: Mapping[str, Reply]) -> tuple[Params, Array, Array, Array]:
        """Updates, losses, reach and arrivals, one row per slot; exactly zero where nothing arrived."""
        active, (losses, reach, came) = np.asarray(turn.cohort.active), self._columns()
        for name, reply in replies.items():
            slot = turn.slots.get(name)
            if slot is None:
                log.warning("%s was not asked; its reply is dropped", name)
            elif active[slot]:
                losses[slot], reach[slot], came[slot] = reply.loss or 0.0, reply.reach, True
                for key, row in self.row(slot).items():
                    if not np.may_share_memory(row, reply.update[key]):
                        row[...] = reply.update[key]
        for slot in [slot for slot in self._written if not came[slot]]:
            for rows in self._rows.values():
                rows[slot] = 0.0
            self._written.discard(slot)
        # Not `asarray`, which copies; the rows are not written to before the round is closed.
        return jax.device_put((self._rows, losses, reach, came))

    def blank(self) -> tuple[Params, Array, Array, Array]:
        """What `filled` returns, for a compiler: only shapes are valid, since rows are written to at the same time."""
        return jax.device_put((self._rows, *self._columns()))

    def _columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros(self._slots, np.float32), np.zeros(self._slots, np.float32), np.zeros(self._slots, bool)
