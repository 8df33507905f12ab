"""Arrays whose axes are stored in another order than the program names them, so that transposes cancel.

A logical axis is one of the program as it was written. The order says which logical axis is stored at each place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

Order = tuple[int, ...]
Stored = Array | np.ndarray | np.generic  # numbers of the program's text are numpy's


@dataclass(frozen=True)
class Laid:
    """An array, and the logical axis that is stored at each place."""

    stored: Stored
    order: Order

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.stored.shape[place] for place in places(self.order))

    def in_order(self, order: Order) -> Any:
        """The array with its axes stored in another order."""
        if order == self.order:
            return self.stored
        at = places(self.order)
        return lax.transpose(jnp.asarray(self.stored), [at[axis] for axis in order])


@dataclass(frozen=True)
class Spread:
    """A smaller value repeated over further axes: made only where it is needed, in the order that is needed there."""

    value: Laid
    shape: tuple[int, ...]
    axes: tuple[int, ...]  # logical axis of the result for each of the value's

    @property
    def order(self) -> Order:
        """New axes first, the value's own in the order in which it is stored."""
        own = [self.axes[axis] for axis in self.value.order]
        new = [axis for axis in range(len(self.shape)) if axis not in own]
        return (*range(len(self.shape)),) if own == sorted(own) else (*new, *own)

    def in_order(self, order: Order) -> Any:
        at = places(order)
        own = sorted(range(len(self.axes)), key=lambda axis: at[self.axes[axis]])
        stored = self.value.in_order(tuple(own))
        return lax.broadcast_in_dim(stored, [self.shape[axis] for axis in order], [at[self.axes[axis]] for axis in own])


Value = Laid | Spread


def places(order: Sequence[int]) -> Order:
    """The place at which each logical axis is stored."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def as_written(array: Stored) -> Laid:
    """An array whose axes are stored as the program names them."""
    return Laid(array, tuple(range(jnp.ndim(array))))


def logical(value: Value) -> Any:
    """The array with its axes as the program names them."""
    return value.in_order(tuple(range(len(value.shape))))


def turned(value: Value) -> bool:
    """Whether the order matters: axes of length one may stand anywhere."""
    long = [axis for axis in value.order if value.shape[axis] > 1]
    return long != sorted(long)


def reshaped(order: Order, before: Sequence[int], after: Sequence[int]) -> Order | None:
    """The order of an array after a reshape that splits and merges axes, without moving a number.

    None where there is no such order: axes that are merged must be stored side by side.
    """
    at = places(order)
    parts: dict[int, list[int]] = {}  # first axis of each group before, and the axes after
    for old, new in _groups(before, after):
        start = at[old[0]]
        long_places = [place for place in range(len(order)) if before[order[place]] > 1]
        rank = {order[place]: number for number, place in enumerate(long_places)}
        if [rank[axis] for axis in old] != list(range(rank[old[0]], rank[old[0]] + len(old))):
            return None
        parts[start] = new
    short = [axis for axis, size in enumerate(after) if size == 1]
    return (*short, *(axis for start in sorted(parts) for axis in parts[start]))


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes before and after that hold the same numbers; those of length one are left out."""
    old = [axis for axis, size in enumerate(before) if size > 1]
    new = [axis for axis, size in enumerate(after) if size > 1]
    found: list[tuple[list[int], list[int]]] = []
    while old:
        left, right = [old.pop(0)], [new.pop(0)]
        sizes = before[left[0]], after[right[0]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                left.append(old.pop(0))
                sizes = sizes[0] * before[left[-1]], sizes[1]
            else:
                right.append(new.pop(0))
                sizes = sizes[0], sizes[1] * after[right[-1]]
        found.append((left, right))
    return found


def abstract(value: Value) -> jax.ShapeDtypeStruct:
    """Shape and type as the program names them."""
    stored = value.stored if isinstance(value, Laid) else value.value.stored
    return jax.ShapeDtypeStruct(value.shape, stored.dtype)
