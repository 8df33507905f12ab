"""Poolings as maxima and sums of slices: the gradient of a window that is moved over images would be a scatter."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from turnout.tasks.models.rewriting.cutting import Cut, Side, padded
from turnout.tasks.models.rewriting.layout import Laid, Value, places

MOST_SLICES = 64  # of one axis
POOLINGS = ("reduce_window_max", "reduce_window_min", "reduce_window_sum")


def sides_of(params: dict[str, Any]) -> list[Side]:
    """How the window moves along each axis."""
    padding, apart = params["padding"], zip(params["window_dilation"], params["base_dilation"], strict=True)
    each = zip(params["window_dimensions"], params["window_strides"], padding, apart, strict=True)
    return [Side(size, stride, before, after, *both) for size, stride, (before, after), both in each]


def why_not(params: dict[str, Any], images: Any) -> str | None:
    """Why a pooling stays as it was; None if it is rewritten."""
    sides = sides_of(params)
    if not jnp.issubdtype(images.dtype, jnp.floating):
        return f"its inputs are of type {images.dtype}"
    steps = [side.steps(length) for side, length in zip(sides, images.shape, strict=True)]
    if math.prod(images.shape) == 0 or 0 in steps:
        return "its result is empty"
    if any(side.size > MOST_SLICES and count > 1 for side, count in zip(sides, steps, strict=True)):
        return f"its window is longer than {MOST_SLICES}"
    return None


def pool(name: str, images: Value, params: dict[str, Any]) -> Laid:
    """The result of a pooling, stored in the order of its images."""
    stored, sides, at = images.in_order(images.order), sides_of(params), places(images.order)
    filling, combine, reduce = _KINDS[name]
    moving = [(at[axis], side) for axis, side in enumerate(sides) if not side.still]
    apart = [(axis, side) for axis, side in moving if side.size == side.stride and side.spread == 1]
    if apart == moving:
        return Laid(_of_squares(stored, moving, filling, reduce), images.order)
    # Axis by axis, the last of the program first: so the first of several equal numbers is taken, as in the scatter.
    for axis, side in reversed(moving):
        stored = functools.reduce(combine, Cut(stored, [side], [axis], filling).all_places())
    return Laid(stored, images.order)


def _of_squares(stored: Array, moving: list[tuple[int, Side]], filling: float, reduce: Any) -> Array:
    """Windows side by side are a reshape; equal numbers then share a gradient."""
    axes, sides = [axis for axis, _ in moving], dict(moving)
    whole = padded(stored, list(sides.values()), axes, filling)
    shape, inside = list[int](), list[int]()
    for axis, length in enumerate(whole.shape):
        if axis in sides:
            shape.append(length // sides[axis].size)
            inside.append(len(shape))
            shape.append(sides[axis].size)
        else:
            shape.append(length)
    return reduce(whole.reshape(shape), axis=tuple(inside))


def _larger(one: Array, other: Array) -> Array:
    return jnp.where((one >= other) | jnp.isnan(one), one, other)


def _smaller(one: Array, other: Array) -> Array:
    return jnp.where((one <= other) | jnp.isnan(one), one, other)


_KINDS: dict[str, tuple[float, Callable[[Array, Array], Array], Callable[..., Array]]] = {
    "reduce_window_max": (-jnp.inf, _larger, jnp.max),
    "reduce_window_min": (jnp.inf, _smaller, jnp.min),
    "reduce_window_sum": (0.0, jnp.add, jnp.sum),
}
