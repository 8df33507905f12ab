"""Convolution, ReLU and pooling in one kernel that writes no patches, for NVIDIA GPUs (Pallas, by way of Triton).

For each channel and row of pixels an image is one line of numbers: pixel by pixel, and of each pixel the samples of the
batch. A neighbour is then a whole batch away, so that a tile of a line is a column block of a matrix product. A program
makes one tile of pooled outputs. It sums the products of each pixel of a pooling window by itself and keeps the
largest, with its place in the window: gradients need nothing but pooled outputs and places.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, UInt8

Kind = Literal["outputs", "images", "weight"]  # what a kernel makes: outputs, or the gradient by one of the others
NOWHERE = 255  # the place of a maximum that ReLU cuts off
_FEW = 128  # numbers of a patch that are multiplied in one go
_LEAST = 16  # rows and columns that a product must have


@dataclass(frozen=True)
class Window:
    """What becomes of one convolution: its kernel, and the squares of pixels of which the largest is kept."""

    size: int
    padding: int
    pool: int
    interpreted: bool = False  # slowly, on whatever device: for tests

    def pooled(self, height: int, width: int) -> tuple[int, int]:
        shrink = 2 * self.padding - self.size + 1
        return (height + shrink) // self.pool, (width + shrink) // self.pool


class Tiles(NamedTuple):
    """How a kernel is cut up: chosen by measurement (decision 0036)."""

    columns: int
    rows: int  # at most, of channels or features
    warps: int
    stages: int
    splits: int = 1  # parts of a sum over pixels that are added up afterwards


def tiles_for(kind: Kind, channels: int, size: int) -> Tiles:
    """The fastest of those tried on an H200, by the channels of the images and the size of the kernel."""
    small = size**2 * channels <= _FEW
    if kind == "images":
        return Tiles(64, 32, 4, 1)
    if kind == "outputs":
        return Tiles(64, 32, 4, 1) if small else Tiles(64, 64, 4, 2) if channels <= 32 else Tiles(128, 32, 4, 3)
    if small:
        return Tiles(64, 32, 4, 3, splits=16)
    if size > 3:
        return Tiles(32, 64, 8, 3, splits=2)
    return Tiles(64, 64, 4, 3 if channels <= 32 else 1, splits=8)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def convolve_and_pool(
    window: Window,
    weight: Float[Array, "patch features"],
    bias: Float[Array, " features"],
    images: Float[Array, "channels height width batch"],
) -> Float[Array, "features down across batch"]:
    """The largest of every square of outputs of a convolution, or zero if all are negative."""
    return _outputs(window, weight, bias, images)[0]


def _forwards(window: Window, weight: Array, bias: Array, images: Array) -> tuple[Array, tuple[Array, ...]]:
    outputs, places = _outputs(window, weight, bias, images)
    return outputs, (weight, images, places)


def _backwards(window: Window, kept: tuple[Array, ...], gradient: Array) -> tuple[Array, Array, Array]:
    weight, images, places = kept
    counted = jnp.where(places == NOWHERE, 0.0, gradient.astype(jnp.float32))
    by_weight = _by_weight(window, images, gradient, places, weight.shape)
    return by_weight, counted.sum(axis=(1, 2, 3)), _by_images(window, weight, gradient, places, images.shape)


convolve_and_pool.defvjp(_forwards, _backwards)


def _outputs(window: Window, weight: Array, bias: Array, images: Array) -> tuple[Array, UInt8[Array, "..."]]:
    """Pooled outputs, and the place of each in its square."""
    channels, height, width, batch = images.shape
    features, (down, across) = weight.shape[1], window.pooled(height, width)
    tiles, options = _tiled("outputs", window, channels)
    columns, rows = min(tiles.columns, _power(across * batch)), min(tiles.rows, _power(features))
    patches = _Patches(window, images.shape, tiles)

    def kernel(weight_ref: Any, bias_ref: Any, image_ref: Any, out_ref: Any, place_ref: Any) -> None:
        y, number, of = pl.program_id(0), pl.program_id(1) * columns + jnp.arange(columns), pl.program_id(2)
        known, inside = of * rows + jnp.arange(rows), number < across * batch
        some = known < features

        def add(turn: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            kernels = [
                triton.load(weight_ref.at[at[:, None], known[None, :]], mask=real[:, None] & some[None, :], other=0.0)
                for at, real in patches.of_kernel(turn)
            ]
            added = list(sums)
            for square, which, pixels in patches.of_images(turn, image_ref, y, number, inside):
                added[square] += triton.dot(kernels[which].astype(pixels.dtype), pixels, trans_a=True)
            return tuple(added)

        nothing = (jnp.zeros((rows, columns), jnp.float32),) * window.pool**2
        sums = jax.lax.fori_loop(0, patches.turns, add, nothing)
        best, place = sums[0], jnp.zeros((rows, columns), jnp.int32)
        for square, total in enumerate(sums[1:], 1):
            best, place = jnp.maximum(total, best), jnp.where(total > best, square, place)
        best += triton.load(bias_ref.at[known], mask=some, other=0.0)[:, None]
        place, mask = jnp.where(best > 0, place, NOWHERE), some[:, None] & inside[None, :]
        here = known[:, None], y, number[None, :]
        triton.store(out_ref.at[here], jnp.maximum(best, 0.0).astype(images.dtype), mask=mask)
        triton.store(place_ref.at[here], place.astype(jnp.uint8), mask=mask)

    shape = (features, down, across * batch)
    outputs, places = pl.pallas_call(
        kernel,
        grid=(down, -(-across * batch // columns), -(-features // rows)),
        out_shape=(jax.ShapeDtypeStruct(shape, images.dtype), jax.ShapeDtypeStruct(shape, jnp.uint8)),
        name="convolve_and_pool",
        **options,
    )(weight, bias, images.reshape(channels, height, width * batch))
    return outputs.reshape(features, down, across, batch), places.reshape(features, down, across, batch)


def _by_images(window: Window, weight: Array, gradient: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """The gradient by the images: what each pixel did to the outputs whose kernel lay over it."""
    (channels, height, width, batch), (features, down, across) = shape, gradient.shape[:3]
    size, pool, padding = window.size, window.pool, window.padding
    tiles, options = _tiled("images", window, channels)
    lines, length = -(-height // pool), -(-width // pool) * batch
    columns, rows = min(tiles.columns, _power(length)), min(tiles.rows, _power(channels))
    depth = min(tiles.rows, _power(features))
    # Of an output whose square is `shift` squares away, and which lies `dx` pixels into it, which pixel `ex` of our own
    # square was seen by which column j of the kernel:
    seen = {(ex - j + padding) // pool: [] for ex in range(pool) for j in range(size)}
    for ex in range(pool):
        for j in range(size):
            shift, dx = divmod(ex - j + padding, pool)
            seen[shift].append((dx, ex, j))

    def kernel(weight_ref: Any, gradient_ref: Any, place_ref: Any, out_ref: Any) -> None:
        line, number = pl.program_id(0), pl.program_id(1) * columns + jnp.arange(columns)
        known, (square, sample) = pl.program_id(2) * rows + jnp.arange(rows), _divmod(number, batch)
        some = known < channels

        def add(turn: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            i, part = _divmod(turn, -(-features // depth))
            of, added = part * depth + jnp.arange(depth), list(sums)
            mask = some[:, None] & (of < features)[None, :]
            at = [(i * size + j) * channels + known for j in range(size)]
            kernels = [triton.load(weight_ref.at[a[:, None], of[None, :]], mask=mask, other=0.0) for a in at]
            kernels = [each.astype(gradient.dtype) for each in kernels]
            for ey in range(pool):
                y = pool * line + ey - i + padding  # of the output before pooling
                above, dy = _divmod(jnp.maximum(y, 0), pool)
                for shift, pairs in seen.items():
                    x = square + shift
                    inside = (x >= 0) & (x < across) & (y >= 0) & (y < pool * down)
                    here = (of[:, None], above, (x * batch + sample)[None, :])
                    mask = (of < features)[:, None] & inside[None, :]
                    value = triton.load(gradient_ref.at[here], mask=mask, other=0.0)
                    place = triton.load(place_ref.at[here], mask=mask, other=NOWHERE).astype(jnp.int32)
                    for dx, ex, j in pairs:
                        chosen = jnp.where(place == dy * pool + dx, value, jnp.zeros_like(value))
                        added[ey * pool + ex] += triton.dot(kernels[j], chosen)
            return tuple(added)

        nothing = (jnp.zeros((rows, columns), jnp.float32),) * pool**2
        sums = jax.lax.fori_loop(0, size * -(-features // depth), add, nothing)
        for place, total in enumerate(sums):
            y, x = pool * line + place // pool, pool * square + place % pool
            mask = some[:, None] & ((x < width) & (y < height) & (number < length))[None, :]
            here = (known[:, None], y, (x * batch + sample)[None, :])
            triton.store(out_ref.at[here], total.astype(gradient.dtype), mask=mask)

    flat = (features, down, across * batch)
    return pl.pallas_call(
        kernel,
        grid=(lines, -(-length // columns), -(-channels // rows)),
        out_shape=jax.ShapeDtypeStruct((channels, height, width * batch), gradient.dtype),
        name="convolve_and_pool_by_images",
        **options,
    )(weight, gradient.reshape(flat), places.reshape(flat)).reshape(shape)


def _by_weight(window: Window, images: Array, gradient: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """The gradient by the kernel: patches times gradients, summed over all pixels."""
    (channels, height, width, batch), (features, down, across) = images.shape, gradient.shape[:3]
    tiles, options = _tiled("weight", window, channels)
    columns, rows = min(tiles.columns, _power(across * batch)), min(tiles.rows, _power(features))
    patches = _Patches(window, images.shape, tiles)
    in_line, splits = -(-across * batch // columns), min(tiles.splits, down)
    lines = -(-down // splits)  # of one split

    def kernel(image_ref: Any, gradient_ref: Any, place_ref: Any, out_ref: Any) -> None:
        split, turn = pl.program_id(0), pl.program_id(1)
        known = pl.program_id(2) * rows + jnp.arange(rows)
        some = known < features

        def add(tile: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
            line, part = _divmod(tile, in_line)
            y, number = split * lines + line, part * columns + jnp.arange(columns)
            inside, added = (number < across * batch) & (y < down), list(sums)
            here, mask = (known[:, None], y, number[None, :]), some[:, None] & inside[None, :]
            value = triton.load(gradient_ref.at[here], mask=mask, other=0.0)
            place = triton.load(place_ref.at[here], mask=mask, other=NOWHERE).astype(jnp.int32)
            chosen = [jnp.where(place == square, value, jnp.zeros_like(value)) for square in range(window.pool**2)]
            for square, which, pixels in patches.of_images(turn, image_ref, y, number, inside):
                added[which] += triton.dot(pixels, chosen[square], trans_b=True)
            return tuple(added)

        nothing = (jnp.zeros((patches.rows, rows), jnp.float32),) * len(patches.of_kernel(turn))
        sums = jax.lax.fori_loop(0, lines * in_line, add, nothing)
        for total, (at, real) in zip(sums, patches.of_kernel(turn), strict=True):
            mask = real[:, None] & some[None, :]
            triton.store(out_ref.at[split, at[:, None], known[None, :]], total, mask=mask)

    flat = (features, down, across * batch)
    parts = pl.pallas_call(
        kernel,
        grid=(splits, patches.turns, -(-features // rows)),
        out_shape=jax.ShapeDtypeStruct((splits, *shape), jnp.float32),
        name="convolve_and_pool_by_weight",
        **options,
    )(images.reshape(channels, height, width * batch), gradient.reshape(flat), places.reshape(flat))
    return parts.sum(axis=0)


class _Patches:
    """Blocks of rows of patches, cut out of the images as they are needed.

    A patch is ordered row by row and pixel by pixel, within each by channels. If it is small it is one block. Else a
    turn takes one row of the kernel and some of the channels, with one block per column of the kernel.
    """

    def __init__(self, window: Window, shape: tuple[int, ...], tiles: Tiles) -> None:
        self._window, (self._channels, self._height, self._width, self._batch) = window, shape
        self._whole = window.size**2 * self._channels
        self._small = self._whole <= _FEW
        self.rows = _power(self._whole) if self._small else min(tiles.rows, _power(self._channels))
        self._parts = -(-self._channels // self.rows)
        self.turns = 1 if self._small else window.size * self._parts

    def of_kernel(self, turn: Any) -> list[tuple[Array, Array]]:
        """Per block its rows of the kernel, and which of them there are."""
        if self._small:
            return [(jnp.arange(self.rows), jnp.arange(self.rows) < self._whole)]
        i, channel = self._row_and_channels(turn)
        size = self._window.size
        return [((i * size + j) * self._channels + channel, channel < self._channels) for j in range(size)]

    def of_images(self, turn: Any, image_ref: Any, y: Any, number: Array, inside: Array) -> Any:
        """For each pixel of the squares of a tile: its place in the square, a block, and that block of its patches."""
        size, pool = self._window.size, self._window.pool
        if self._small:
            pixel, channel = _divmod(jnp.arange(self.rows), self._channels)
            i, j = _divmod(pixel, size)
            real = jnp.arange(self.rows) < self._whole
            for dy in range(pool):
                for dx in range(pool):
                    yield dy * pool + dx, 0, self._cut(image_ref, channel, real, y, dy + i, number, dx + j, inside)
            return
        i, channel = self._row_and_channels(turn)
        for dy in range(pool):
            for right in range(pool - 1 + size):
                pixels = self._cut(image_ref, channel, channel < self._channels, y, dy + i, number, right, inside)
                for dx in range(pool):
                    if 0 <= right - dx < size:
                        yield dy * pool + dx, right - dx, pixels

    def _row_and_channels(self, turn: Any) -> tuple[Any, Array]:
        i, part = _divmod(turn, self._parts)
        return i, part * self.rows + jnp.arange(self.rows)

    def _cut(
        self, image_ref: Any, channel: Array, real: Array, y: Any, below: Any, number: Array, right: Any, inside: Array
    ) -> Array:
        """Pixels so far below and to the right of the first pixel of every square, zero beyond the border."""
        pool, padding = self._window.pool, self._window.padding
        square, sample = _divmod(number, self._batch)
        row, x = pool * y + below - padding, pool * square[None, :] + jnp.reshape(right - padding, (-1, 1))
        row = jnp.reshape(row, (-1, 1))
        mask = real[:, None] & inside[None, :] & (x >= 0) & (x < self._width) & (row >= 0) & (row < self._height)
        return triton.load(image_ref.at[channel[:, None], row, x * self._batch + sample[None, :]], mask=mask, other=0.0)


def _tiled(kind: Kind, window: Window, channels: int) -> tuple[Tiles, dict[str, Any]]:
    tiles = tiles_for(kind, channels, window.size)
    settings = triton.CompilerParams(num_warps=tiles.warps, num_stages=tiles.stages)
    return tiles, {"compiler_params": settings, "interpret": window.interpreted}


def _divmod(number: Any, by: int) -> tuple[Any, Any]:
    """Of numbers that are not negative; the usual operators mind signs, which hides what stands side by side."""
    divisor = jnp.full_like(number, by)
    return jax.lax.div(number, divisor), jax.lax.rem(number, divisor)


def _power(count: int) -> int:
    return max(_LEAST, 1 << (count - 1).bit_length())
