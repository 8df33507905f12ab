"""A memory of one model per client, shared by several strategies, and a check that it fits."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.types import Cohort, Fleet, Params, Reports, View, divide

Keeper = Literal["server", "clients"]  # who remembers the last update of each client

_GIB = 2**30


def check_keeper(memory: str) -> None:
    """Raise a ValueError if nobody of that name can keep a memory."""
    if memory not in get_args(Keeper):
        raise ValueError(f"memory must be 'server' or 'clients', not {memory!r}")


class UpdateMemory(eqx.Module):
    """The last update of every client, zero before its first, and their sum.

    Updates are kept per unit of learning rate, Δ_k / η_t: minus the gradients of the client's local work, summed up. So
    one that was sent at another rate is used at the present one. Where each client remembers its own update and sends
    the change, the server keeps the sum alone.
    """

    rows: Params | None  # one model per client; None where the clients remember them
    total: Params  # Σ_k importance_k rows_k, kept up to date by differences

    @classmethod
    def empty(cls, fleet: Fleet, params: Params, on_clients: bool = False) -> UpdateMemory:
        return cls(None if on_clients else rows_of_zeros(fleet, params), tree.zeros_like(params))

    def refresh(self, view: View, cohort: Cohort, reports: Reports) -> tuple[Params, UpdateMemory]:
        """The change of each slot's update since the last one, zero where nothing arrived; and the memory after."""
        change, rows = reports.updates, None
        if self.rows is not None:
            fresh = tree.per_rate(reports.updates, view.lr)
            old, rows = cohort.swap(self.rows, fresh)
            change = tree.where_rows(cohort.arrived, tree.subtract(fresh, old), tree.zeros_like(old))
        total = tree.add(self.total, tree.weighted_sum(change, cohort.take(view.importance)))
        return change, UpdateMemory(rows, total)

    def recount(self, fleet: Fleet) -> UpdateMemory:
        """The memory with its sum made anew, after rows of clients that have left were reset."""
        return self if self.rows is None else UpdateMemory(self.rows, tree.weighted_sum(self.rows, fleet.importance))

    def mean(self, view: View) -> Params:
        """Σ_k α_k Δ_k / η over all clients, each with the last update it sent."""
        return tree.scale(self.total, divide(jnp.ones(()), jnp.sum(view.importance)))


def rows_of_zeros(fleet: Fleet, params: Params) -> Params:
    """One model of zeros per client."""
    return jax.tree.map(lambda leaf: jnp.zeros((fleet.num_clients, *leaf.shape), leaf.dtype), params)


def check_memory(strategy: Strategy, fleet: Fleet, make_state: Callable[[], Any], room: int | None = None) -> None:
    """Refuse a strategy whose state, that of its clients included, does not fit on the device, before it is allocated.

    `room` is the memory in bytes, that of the device if not given. Where that is unknown, nothing is refused.
    """
    room = _device_memory() if room is None else room
    shapes = eqx.filter(eqx.filter_eval_shape(make_state), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    needed = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    if room is not None and needed > room:
        name = type(strategy).__name__
        raise ValueError(
            f"{name} remembers {needed / _GIB:.1f} GiB for {fleet.num_clients} clients, each seed as much again, but "
            f"the device has {room / _GIB:.1f} GiB: take fewer clients, a smaller model, or a strategy without "
            "a memory of one model per client, such as FedAU"
        )


def _device_memory() -> int | None:
    """Bytes on the first device, or in this machine where that is the device; None if unknown."""
    device = jax.devices()[0]
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    if device.platform == "cpu" and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
