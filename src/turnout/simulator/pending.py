"""Work under way: one row per busy place, from the tick in which a client is asked to the step that uses its update.

A row holds the orders of its client, not its update: the client is trained when the update is used. So lost, given-up
and unused work costs nothing, and the clients of one step train together. Clients that were sent the same model share
one copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int8, Shaped

from turnout.packing import first_indices
from turnout.simulator.client import Sent
from turnout.simulator.orders import Orders
from turnout.types import Answer, Cohort, Download, Mask, PerSlot, SlotMask, Steps

VACANT, WORKING, ARRIVED, FAILED = range(4)
Places = Bool[Array, " places"]
Whole = Int[Array, " places"]
RowOfSlot = Int[Array, " slots"]
Write = Callable[[Download, Array], Download]
Change = Callable[[Array, Write, Download], Download]  # of what is held, if a flag holds in any lane


class Pending(eqx.Module):
    """Rows in any order. A client has one row at most; a vacant place has the client `num_clients`."""

    orders: Orders
    downloads: Download  # what was sent: in no order, as many rows as places
    sent: Whole  # which row of the downloads
    status: Int8[Array, " places"]
    late: Places  # nobody waits for it any more, but its client works on
    left: Whole  # ticks of work after this one
    since: Whole  # tick in which the client was asked
    version: Whole  # of the model that it was sent
    answers: Answer | None = None  # of work that is over, where it must be done at once
    losses: PerSlot | None = None  # likewise

    @classmethod
    def empty(cls, orders: Orders, download: Download, places: int, answers: Answer | None) -> Pending:
        """Vacant places for orders, downloads and answers of these shapes."""

        def rows(leaf: jax.ShapeDtypeStruct) -> Array:
            return jnp.zeros((places, *leaf.shape[1:]), leaf.dtype)

        made: Orders = jax.tree.map(lambda leaf: rows(leaf) if leaf.ndim else jnp.zeros((), leaf.dtype), orders)
        ids = jnp.full(places, made.cohort.num_clients, jnp.int32)
        whole, never = jnp.zeros(places, jnp.int32), jnp.zeros(places, bool)
        return cls(
            orders=replace(made, cohort=replace(made.cohort, ids=ids)),
            downloads=jax.tree.map(rows, download),
            sent=whole,
            status=jnp.zeros(places, jnp.int8),
            late=never,
            left=whole,
            since=whole,
            version=whole,
            answers=jax.tree.map(rows, answers),
            losses=None if answers is None else jnp.zeros(places),
        )

    @property
    def ids(self) -> Whole:
        return self.orders.cohort.ids

    @property
    def num_clients(self) -> int:
        return self.orders.cohort.num_clients

    @property
    def busy(self) -> Mask:
        """The clients that must not be asked: at work, or with an update that is not used yet."""
        return self.clients(jnp.ones_like(self.late))

    def clients(self, rows: Places) -> Mask:
        """The clients in these places."""
        ids = jnp.where(rows, self.ids, self.num_clients)
        return jnp.zeros(self.num_clients, bool).at[ids].set(True, mode="drop")

    @property
    def working(self) -> Places:
        return self.status == WORKING

    def of_clients(self, values: Shaped[Array, "clients"]) -> Shaped[Array, "places"]:
        """Per-client values by place, zero for vacant ones."""
        return self.orders.cohort.take(values)

    # Long: every column of a row is written here.
    def start(
        self,
        orders: Orders,
        download: Download,
        alike: bool,
        ticks: Steps | None,
        tick: Array,
        version: Array,
        change_if: Change,
    ) -> tuple[Pending, Array]:
        """The rows with further orders in vacant places, and the number of clients that found none.

        `alike`: all are sent the same. What was sent is written by `change_if`.
        """
        slots, places = orders.cohort.ids.shape[0], self.status.shape[0]
        asked = orders.cohort.trained
        rows = jnp.where(asked, first_indices(self.status == VACANT, slots), places)

        def put(held: Array, new: Array) -> Array:
            return held.at[rows].set(jnp.broadcast_to(new, (slots, *held.shape[1:])).astype(held.dtype), mode="drop")

        def put_orders(held: Array, new: Array) -> Array:
            return put(held, new) if held.ndim else held

        needed, sent = jnp.any(asked), rows
        if alike:
            sent = self._row_to_send(download, version)
            first, written = jax.tree.map(lambda new: new[:1], download), jnp.where(needed, sent, places)[None]
        else:
            first, written = download, rows

        def write(held: Download, on: Array) -> Download:
            into = jnp.where(on, written, places)
            return jax.tree.map(lambda leaf, new: leaf.at[into].set(new, mode="drop"), held, first)

        downloads = change_if(needed, write, self.downloads)
        after = replace(
            self,
            orders=jax.tree.map(put_orders, self.orders, orders),
            downloads=downloads,
            sent=put(self.sent, sent),
            status=put(self.status, jnp.asarray(WORKING)),
            late=put(self.late, jnp.asarray(False)),
            left=put(self.left, jnp.zeros(slots) if ticks is None else orders.cohort.take(ticks)),
            since=put(self.since, tick),
            version=put(self.version, version),
        )
        return after, jnp.sum(asked & (rows == places), dtype=jnp.int32)

    def _row_to_send(self, download: Download, version: Array) -> Array:
        """The row for what all are sent, the present one if it holds just that."""
        busy, places = self.status != VACANT, self.status.shape[0]
        row = jnp.argmin(jnp.zeros(places, bool).at[jnp.where(busy, self.sent, places)].set(True, mode="drop"))
        if download.shared is None:  # or it may differ from tick to tick
            same = busy & (self.version == version)
            row = jnp.where(jnp.any(same), self.sent[jnp.argmax(same)], row)
        return row

    def pass_time(self, here: Places, leaving: str) -> tuple[Pending, Places, Places]:
        """The rows at the end of a tick, whose work is over, and whose is lost since its client has left."""
        lost = self.working & ~here if leaving == "abort" else jnp.zeros_like(here)
        over = self.working & (self.left <= 0)
        if leaving != "answer":
            over &= here
        goes_on = jnp.ones_like(here) if leaving in ("continue", "answer") else here
        return replace(self, left=self.left - goes_on.astype(jnp.int32)), over, lost

    def mark(self, arrived: Places, failed: Places) -> Pending:
        """The rows with these marked as arrived or failed."""
        status = jnp.where(arrived, ARRIVED, jnp.where(failed, FAILED, self.status))
        return replace(self, status=status.astype(jnp.int8))

    def cohort(self, included: Places) -> Cohort:
        """These rows as a cohort with a slot for every place."""
        cohort = self.orders.cohort
        ids = jnp.where(included, cohort.ids, cohort.num_clients)
        arrived = included & (self.status == ARRIVED)
        return replace(cohort, ids=ids, uploading=included & cohort.uploading, arrived=arrived)

    def pack(
        self, included: Places, first: Places, slots: int, tick: Array, version: Array
    ) -> tuple[Orders, Download, RowOfSlot]:
        """The orders in these rows, in so many slots, with what was sent and the row of each slot.

        Those of `first` come before all others, each by client; they alone have work to do.
        """
        rank = jnp.where(included, self.ids + jnp.where(first, 0, self.num_clients), 2 * self.num_clients)
        rows = jnp.argsort(rank)[:slots]
        filled: SlotMask = included[rows]

        def take(leaf: Array) -> Array:
            return leaf[rows] if leaf.ndim else leaf

        def only(values: Array) -> Array:
            return jnp.where(filled, values, jnp.zeros_like(values))

        taken: Orders = jax.tree.map(take, self.orders)
        cohort = replace(
            taken.cohort,
            ids=jnp.where(filled, taken.cohort.ids, self.num_clients),
            uploading=filled & taken.cohort.uploading,
            copies=only(taken.cohort.copies),
            weight=only(taken.cohort.weight),
            scale=only(taken.cohort.scale),
            arrived=filled & (self.status[rows] == ARRIVED),
            overflow=jnp.maximum(jnp.sum(included, dtype=jnp.int32) - slots, 0),
            age=only(version - self.version[rows]).astype(jnp.float32),
            waited=only(tick - self.since[rows]).astype(jnp.float32),
        )
        jobs = replace(taken.jobs, steps=jnp.where(first[rows], taken.jobs.steps, 0))
        download = jax.tree.map(lambda leaf: leaf[self.sent[rows]], self.downloads)
        return replace(taken, cohort=cohort, jobs=jobs), download, jnp.where(filled, rows, self.status.shape[0])

    def admit(self, rows: RowOfSlot, admitted: Cohort) -> Pending:
        """The rows in which of these only some may upload, with the weights that this choice gives them."""
        held = self.orders.cohort

        def put(name: str) -> Array:
            return getattr(held, name).at[rows].set(getattr(admitted, name), mode="drop")

        changed = {name: put(name) for name in ("uploading", "copies", "weight", "scale")}
        return replace(self, orders=replace(self.orders, cohort=replace(held, **changed)))

    def store(self, rows: RowOfSlot, answers: Answer, losses: PerSlot) -> Pending:
        """The rows with the answers of finished work."""

        def put(held: Array, new: Array) -> Array:
            return held.at[rows].set(new, mode="drop")

        assert self.losses is not None  # or work is not done at once
        return replace(self, answers=jax.tree.map(put, self.answers, answers), losses=put(self.losses, losses))

    def answered(self, rows: RowOfSlot) -> Sent:
        """The answers in these rows."""

        def take(leaf: Array) -> Array:
            return leaf.at[rows].get(mode="fill", fill_value=0)

        assert self.losses is not None  # or work is not done at once
        return Sent(jax.tree.map(take, self.answers), take(self.losses))

    def vacate(self, rows: Places) -> Pending:
        """The rows with these places vacant again."""
        cohort = self.orders.cohort
        ids = jnp.where(rows, cohort.num_clients, cohort.ids)
        return replace(
            self,
            orders=replace(self.orders, cohort=replace(cohort, ids=ids)),
            status=jnp.where(rows, VACANT, self.status).astype(jnp.int8),
            late=self.late & ~rows,
        )

    def count(self, mask: Places) -> Int[Array, ""]:
        return jnp.sum(mask, dtype=jnp.int32)
