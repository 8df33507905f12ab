"""How a convolution with pooling is cut up for a kernel: windows, tiles, and blocks of patches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas import triton
from jaxtyping import Array

Kind = Literal["outputs", "images", "weight"]  # what a kernel makes: outputs, or the gradient by one of the others
Ref = Any  # a reference of Pallas, which gives it no type
_FEW = 128  # numbers of a patch that are multiplied in one go
_LEAST = 16  # rows and columns that a product must have


@dataclass(frozen=True)
class Window:
    """One convolution and the pooling after it, which keeps the largest pixel of every square."""

    size: int
    padding: int
    pool: int
    interpreted: bool = False  # on any device, but slowly: for tests

    def pooled_size(self, height: int, width: int) -> tuple[int, int]:
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


class Patches:
    """Blocks of rows of patches, cut out of the images as they are needed.

    A patch is ordered row by row and pixel by pixel, within each by channels. If it is small it is one block. Else a
    turn takes one row of the kernel and some of the channels, with one block per column of the kernel.
    """

    def __init__(self, window: Window, shape: tuple[int, ...], tiles: Tiles) -> None:
        self._window, (self._channels, self._height, self._width, self._batch) = window, shape
        self._whole = window.size**2 * self._channels
        self._small = self._whole <= _FEW
        self.rows = power_of_two(self._whole) if self._small else min(tiles.rows, power_of_two(self._channels))
        self._parts = -(-self._channels // self.rows)
        self.turns = 1 if self._small else window.size * self._parts

    def of_kernel(self, turn: Array) -> list[tuple[Array, Array]]:
        """Per block its rows of the kernel, and which of them there are."""
        if self._small:
            return [(jnp.arange(self.rows), jnp.arange(self.rows) < self._whole)]
        i, channel = self._row_and_channels(turn)
        size = self._window.size
        return [((i * size + j) * self._channels + channel, channel < self._channels) for j in range(size)]

    def of_images(
        self, turn: Array, image_ref: Ref, y: Array, number: Array, inside: Array
    ) -> Iterator[tuple[int, int, Array]]:
        """For each pixel of the squares of a tile: its place in the square, a block, and that block of its patches."""
        size, pool = self._window.size, self._window.pool
        if self._small:
            pixel, channel = divide_whole(jnp.arange(self.rows), self._channels)
            i, j = divide_whole(pixel, size)
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

    def _row_and_channels(self, turn: Array) -> tuple[Array, Array]:
        i, part = divide_whole(turn, self._parts)
        return i, part * self.rows + jnp.arange(self.rows)

    def _cut(
        self,
        image_ref: Ref,
        channel: Array,
        real: Array,
        y: Array,
        below: Array,
        number: Array,
        right: Array | int,
        inside: Array,
    ) -> Array:
        """Pixels so far below and to the right of the first pixel of every square, zero beyond the border."""
        pool, padding = self._window.pool, self._window.padding
        square, sample = divide_whole(number, self._batch)
        row, x = pool * y + below - padding, pool * square[None, :] + jnp.reshape(right - padding, (-1, 1))
        row = jnp.reshape(row, (-1, 1))
        mask = real[:, None] & inside[None, :] & (x >= 0) & (x < self._width) & (row >= 0) & (row < self._height)
        return triton.load(image_ref.at[channel[:, None], row, x * self._batch + sample[None, :]], mask=mask, other=0.0)


def divide_whole(number: Array, by: int) -> tuple[Array, Array]:
    """Quotient and remainder of numbers that are not negative.

    `//` and `%` also handle negative numbers. In that code the compiler no longer sees which numbers lie side by side
    in memory, and loads them one by one.
    """
    divisor = jnp.full_like(number, by)
    return jax.lax.div(number, divisor), jax.lax.rem(number, divisor)


def power_of_two(count: int) -> int:
    """The least power of two that is not below a count, and at least what a product needs."""
    return max(_LEAST, 1 << (count - 1).bit_length())
