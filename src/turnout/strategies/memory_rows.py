"""A memory of one model per client, shared by several strategies, and a check that it fits."""

from __future__ import annotations

import os
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.types import Cohort, Fleet, Params, PerClient, PyTree, divide

Keeper = Literal["server", "clients"]  # who remembers the last update of each client
Bits = Literal[8, 16, 32]  # of a number in a memory on the server

GIB = 2**30


def check_bits(bits: Bits, memory: Keeper) -> None:
    """Refuse numbers of few bits in a memory that the server does not keep."""
    if isinstance(bits, int) and bits != 32 and memory == "clients":
        raise ValueError(f"bits is {bits}, but the clients keep the memory: numbers of fewer bits are for the server's")


class PackedRows(eqx.Module):
    """One model per client as whole numbers of few bits, with a scale per client and array.

    The largest entry of an array is exact, every other one is off by half a unit at most. What is rounded is not
    carried on to the client's next update: that would take a second memory as large as this one.
    """

    numbers: Params
    scales: Params  # of one unit

    def pack(self, rows: Params) -> PackedRows:
        """Other rows, in numbers of as many bits."""

        def unit(row: Array, like: Array) -> Array:
            return jnp.max(jnp.abs(row), axis=tuple(range(1, row.ndim)), initial=0.0) / jnp.iinfo(like.dtype).max

        def count(row: Array, scale: Array, like: Array) -> Array:
            return jnp.round(divide(row, _per_row(scale, row))).astype(like.dtype)

        scales = jax.tree.map(unit, rows, self.numbers)
        return PackedRows(jax.tree.map(count, rows, scales, self.numbers), scales)

    def unpack(self) -> Params:
        return jax.tree.map(
            lambda numbers, scale: numbers.astype(scale.dtype) * _per_row(scale, numbers), self.numbers, self.scales
        )


Rows = Params | PackedRows


def rows_of_zeros(fleet: Fleet, params: Params, bits: Bits = 32) -> Rows:
    """One model of zeros per client, packed where its numbers have fewer than 32 bits."""
    if bits == 32:
        return jax.tree.map(lambda leaf: jnp.zeros((fleet.num_clients, *leaf.shape), leaf.dtype), params)
    kind = {8: jnp.int8, 16: jnp.int16}[bits]
    numbers = jax.tree.map(lambda leaf: jnp.zeros((fleet.num_clients, *leaf.shape), kind), params)
    return PackedRows(numbers, jax.tree.map(lambda leaf: jnp.zeros(fleet.num_clients, leaf.dtype), params))


def _per_row(scale: Array, rows: Array) -> Array:
    return scale.reshape((-1,) + (1,) * (rows.ndim - 1))


def exchange(rows: Rows, cohort: Cohort, fresh: Params) -> tuple[Params, Params, Rows]:
    """Write the fresh rows of a cohort: what was there, what is there now, rounded if packed, and all rows."""
    if not isinstance(rows, PackedRows):
        old, rows = cohort.swap(rows, fresh)
        return old, fresh, rows
    packed = rows.pack(fresh)
    old, rows = cohort.swap(rows, packed)
    return old.unpack(), packed.unpack(), rows


def unpack(rows: Rows) -> Params:
    """Rows as arrays of the model's own kind, whatever they are stored in."""
    return rows.unpack() if isinstance(rows, PackedRows) else rows


def sum_rows(rows: Rows, weights: PerClient) -> Params:
    """Sum of all rows, each times its weight."""
    return tree.weighted_sum(unpack(rows), weights)


def check_memory(
    strategy: Strategy[PyTree], fleet: Fleet, shapes: PyTree, room: int | None = None, devices: int = 1
) -> None:
    """Refuse a strategy whose state, that of its clients included, does not fit on the device, before it is allocated.

    `shapes` are those of the state. `room` is the memory of a device in bytes, that of the first if not given. Where
    that is unknown, nothing is refused. The state is spread over so many `devices`.
    """
    room = device_memory() if room is None else room
    needed = bytes_of(shapes)
    if room is not None and needed > room * devices:
        name, owner = type(strategy).__name__, "the device has" if devices == 1 else f"{devices} devices have"
        raise ValueError(
            f"{name} remembers {needed / GIB:.1f} GiB for {fleet.num_clients} clients, each seed as much again, but "
            f"{owner} {room * devices / GIB:.1f} GiB: take fewer clients, a smaller model, or a strategy without "
            "a memory of one model per client, such as FedAU"
        )


def bytes_of(shapes: PyTree) -> int:
    """The memory of arrays of these shapes."""
    leaves = [leaf for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct)]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def device_memory() -> int | None:
    """Bytes on the first device, or in this machine where that is the device; None if unknown."""
    device = jax.local_devices()[0]
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if device.platform == "cpu" and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
