"""The clients of one lane over all devices of all processes: a mesh of one axis, bridged by the compiler's collectives.

Arrays with one row or more per client, such as its samples, are cut into one part per device. All other arrays are
whole on every device, also those with one number per client. Inside a program every array has its usual shape. Between
programs, rows of zeros are added at the end so that every device holds equally many.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Shaped

from turnout.types import Tree

Spread = Literal["lanes", "clients"]  # what several devices share: whole trainings, or the clients of each

_AXIS = "turnout_clients"  # a name that no mesh around a call has


def num_devices(spread: Spread) -> int:
    """Devices that work on one lane."""
    return jax.device_count() if spread == "clients" else 1


def num_memories(spread: Spread) -> int:
    """Memories over which the state of one lane is spread; the devices of a CPU have one in common."""
    return jax.process_count() if jax.default_backend() == "cpu" and spread == "clients" else num_devices(spread)


class Filled(eqx.Module):
    """Rows over all devices, with zeros at the end so that each device holds equally many."""

    rows: Shaped[Array, "..."]
    count: int = eqx.field(static=True)  # of the rows, without the zeros


def over_all_devices(tree: Tree, num_clients: int, axis: int = 0) -> Tree:
    """Outside programs: spread arrays with one row or more per client, and put all others whole on every device.

    `axis` is that of the rows: 0, or 1 behind that of lanes.
    """
    mesh = Mesh(np.asarray(jax.devices()), (_AXIS,))
    spread, whole = (NamedSharding(mesh, PartitionSpec(*names)) for names in ([*[None] * axis, _AXIS], []))

    def place(leaf: Any) -> Any:
        if not eqx.is_array(leaf):
            return leaf
        if not _holds_numbers(leaf):
            return jr.wrap_key_data(_make(np.asarray(jr.key_data(leaf)), whole), impl=jr.key_impl(leaf))
        if leaf.ndim < axis + 2 or leaf.shape[axis] < num_clients:
            return _make(np.asarray(leaf), whole)
        padded = np.pad(np.asarray(leaf), _padding(leaf.shape, mesh.size, axis))
        return Filled(_make(padded, spread), leaf.shape[axis])

    return jax.tree.map(place, tree)


def _make(array: np.ndarray, sharding: NamedSharding) -> Array:
    """An array of which every process gives what its own devices hold."""
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def devices_of(array: Array) -> AbstractContextManager[object]:
    """A context in which programs are compiled for where this array lies: on one device, or on the mesh of all."""
    if isinstance(mesh := getattr(array.sharding, "mesh", None), Mesh):
        return jax.set_mesh(mesh)
    (device,) = array.devices()
    return jax.default_device(device)


def spread_rows(tree: Tree, num_rows: int) -> Tree:
    """Inside a program for a mesh: spread arrays of so many rows, and keep all others whole on every device."""
    return jax.tree.map(lambda leaf: _spread(leaf) if _has_rows(leaf, num_rows) else everywhere(leaf), tree)


def usual_shapes(tree: Tree) -> Tree:
    """Inside a program: its arguments without the zeros that were added."""

    def cut(leaf: Any) -> Any:
        return _spread(leaf.rows[: leaf.count]) if isinstance(leaf, Filled) else leaf

    return jax.tree.map(cut, tree, is_leaf=lambda leaf: isinstance(leaf, Filled))


def fill_up(state: Tree, num_clients: int) -> Tree:
    """At the end of a program: the state as the next program takes it, with the rows of clients spread."""
    if not _has_mesh():
        return state

    def place(leaf: Array) -> Array | Filled:
        if not _has_rows(leaf, num_clients):
            return everywhere(leaf)
        parts = jax.sharding.get_abstract_mesh().size
        return Filled(_spread(jnp.pad(leaf, _padding(leaf.shape, parts))), num_clients)

    return jax.tree.map(place, state)


def everywhere(tree: Tree) -> Tree:
    """Inside a program for a mesh: keep arrays whole on every device, so that every process can read them."""
    return jax.lax.with_sharding_constraint(tree, PartitionSpec()) if _has_mesh() else tree


def _has_mesh() -> bool:
    return _AXIS in jax.sharding.get_abstract_mesh().axis_names


def _spread(rows: Array) -> Array:
    return jax.lax.with_sharding_constraint(rows, PartitionSpec(_AXIS)) if _has_mesh() else rows


def _padding(shape: tuple[int, ...], parts: int, axis: int = 0) -> list[tuple[int, int]]:
    """Zeros before and after each axis, so that one of them can be cut into equal parts."""
    return [(0, -length % parts if place == axis else 0) for place, length in enumerate(shape)]


def _has_rows(leaf: Array, count: int) -> bool:
    return _holds_numbers(leaf) and leaf.ndim > 1 and leaf.shape[0] == count


def _holds_numbers(leaf: Array) -> bool:
    """Whether it can be filled up with zeros, as random keys cannot."""
    return not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
