"""Convolutions as products of patches (decision 0012), with channels first and samples last."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from turnout.tasks.models.rewriting.cutting import Cut, Side
from turnout.tasks.models.rewriting.layout import Laid, Value

MOST_PLACES = 128  # of a window that moves by less than its size: every place is one more slice
_FEW_OUTPUTS = 4  # per channel of a depthwise convolution, which is then no product


def sides_of(params: dict[str, Any], kernel_shape: tuple[int, ...]) -> list[Side]:
    """How the kernel moves along each axis of space."""
    sizes = [kernel_shape[axis] for axis in params["dimension_numbers"].rhs_spec[2:]]
    padding, apart = params["padding"], zip(params["rhs_dilation"], params["lhs_dilation"], strict=True)
    each = zip(sizes, params["window_strides"], padding, apart, strict=True)
    return [Side(size, stride, before, after, *both) for size, stride, (before, after), both in each]


def why_not(params: dict[str, Any], images: Any, kernel: Any) -> str | None:
    """Why a convolution stays as it was; None if it is rewritten."""
    sides = sides_of(params, kernel.shape)
    if params["batch_group_count"] != 1:
        return "its samples are in groups"
    if not jnp.issubdtype(images.dtype, jnp.floating):
        return f"its inputs are of type {images.dtype}"
    if math.prod(side.size for side in sides) > MOST_PLACES and not _are_tiles(sides):
        return f"its kernel has more than {MOST_PLACES} places"
    lengths = [images.shape[axis] for axis in params["dimension_numbers"].lhs_spec[2:]]
    if math.prod(images.shape) == 0 or any(side.steps(n) == 0 for side, n in zip(sides, lengths, strict=True)):
        return "its result is empty"
    return None


def convolve(images: Value, kernel: Value, params: dict[str, Any], dtype: Any) -> Laid:
    """The result of `conv_general_dilated`, with channels first and samples last."""
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    sides = sides_of(params, kernel.shape)
    (batch, channels, *space), (outputs, inputs, *window) = numbers.lhs_spec, numbers.rhs_spec
    pictures = images.in_order((channels, *space, batch))
    weights = kernel.in_order((*window, inputs, outputs))
    weights = weights.reshape(-1, *weights.shape[-2:])  # places, inputs of a group, outputs
    precision = params["precision"]
    steps = [side.steps(length) for side, length in zip(sides, pictures.shape[1:-1], strict=True)]
    if groups == 1:
        columns = patches(pictures, sides)
        result = _product(weights.reshape(-1, weights.shape[-1]).T, columns, precision)
    elif weights.shape[1] == 1 and weights.shape[2] <= _FEW_OUTPUTS * groups:
        result = _each_channel(weights, pictures, sides)
    else:
        result = _in_groups(weights, pictures, sides, groups, precision)
    result = result.reshape(-1, *steps, pictures.shape[-1]).astype(dtype)
    (batch, channels, *space) = numbers.out_spec
    return Laid(result, (channels, *space, batch))


def patches(pictures: Array, sides: list[Side]) -> Array:
    """One column per window: place by place, within each the channels."""
    if all(side.size == 1 and side.stride == 1 for side in sides):
        return Cut(pictures, sides, _space(sides)).all_places()[0].reshape(pictures.shape[0], -1)
    if _are_tiles(sides):
        return _tiles(pictures, sides)
    seen = Cut(pictures, sides, _space(sides)).all_places()
    return jnp.concatenate(seen).reshape(len(seen) * pictures.shape[0], -1)


def _are_tiles(sides: list[Side]) -> bool:
    """Whether windows lie side by side, so that patches are a reshape and a transpose."""
    plain = [Side(side.size, side.size) for side in sides]
    return sides == plain and any(side.size > 1 for side in sides)


def _tiles(pictures: Array, sides: list[Side]) -> Array:
    channels, *lengths, samples = pictures.shape
    counts = [(length // side.size, side.size) for length, side in zip(lengths, sides, strict=True)]
    kept = pictures[(slice(None), *(slice(0, count * size) for count, size in counts))]
    split = [number for pair in counts for number in pair]
    tiles = kept.reshape(channels, *split, samples)
    inner, outer = range(2, 2 + len(split), 2), range(1, 1 + len(split), 2)
    moved = lax.transpose(tiles, (*inner, 0, *outer, tiles.ndim - 1))
    return moved.reshape(math.prod(side.size for side in sides) * channels, -1)


def _product(left: Array, right: Array, precision: Any) -> Array:
    return jnp.matmul(left, right, precision=precision, preferred_element_type=jnp.float32)


def _in_groups(weights: Array, pictures: Array, sides: list[Side], groups: int, precision: Any) -> Array:
    """A product for each group of channels."""
    places, inputs, outputs = weights.shape
    seen = [part.reshape(groups, 1, inputs, -1) for part in Cut(pictures, sides, _space(sides)).all_places()]
    columns = jnp.concatenate(seen, axis=1).reshape(groups, places * inputs, -1)
    by_group = weights.reshape(places * inputs, groups, outputs // groups).transpose(1, 2, 0)
    return _product(by_group, columns, precision)


def _each_channel(weights: Array, pictures: Array, sides: list[Side]) -> Array:
    """A depthwise convolution: a product with so few terms is a sum."""
    channels = pictures.shape[0]
    factors = weights.reshape(weights.shape[0], channels, -1)[(..., *(None,) * (pictures.ndim - 1))]
    total = jnp.zeros((), jnp.float32)
    for factor, part in zip(factors, Cut(pictures, sides, _space(sides)).all_places(), strict=True):
        total = total + factor.astype(jnp.float32) * part[:, None].astype(jnp.float32)
    return total


def _space(sides: list[Side]) -> range:
    return range(1, 1 + len(sides))
