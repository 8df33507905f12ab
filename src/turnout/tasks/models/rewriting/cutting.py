"""Windows moved over images, cut out by plain slices.

Images have their channels first and their samples last (decision 0025), and in between any number of axes of space.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array


@dataclass(frozen=True)
class Side:
    """How a window moves along one axis."""

    size: int
    stride: int = 1
    before: int = 0  # padding, which is cropping where it is negative
    after: int = 0
    spread: int = 1  # distance of the window's pixels
    gap: int = 1  # distance to which the image's pixels are moved apart first

    def steps(self, length: int) -> int:
        """How many windows there are on an axis of this length."""
        return max(0, (self.padded(length) - self.reach) // self.stride + 1)

    def padded(self, length: int) -> int:
        return max(0, (length - 1) * self.gap + 1) + self.before + self.after

    @property
    def reach(self) -> int:
        return (self.size - 1) * self.spread + 1

    @property
    def still(self) -> bool:
        """Whether the axis stays as it is."""
        return self == Side(1)


def padded(images: Array, sides: Sequence[Side], axes: Sequence[int], filling: float | int) -> Array:
    """The images padded, or cropped, to what the windows touch, a multiple of the stride."""
    config = [(0, 0, 0)] * images.ndim
    for side, axis in zip(sides, axes, strict=True):
        length, steps = images.shape[axis], side.steps(images.shape[axis])
        rows = -(-((steps - 1) * side.stride + side.reach) // side.stride)
        wanted = rows * side.stride
        config[axis] = (side.before, side.after + wanted - side.padded(length), side.gap - 1)
    if all(amounts == (0, 0, 0) for amounts in config):
        return images
    return lax.pad(images, jnp.asarray(filling, images.dtype), config)


class Cut:
    """Padded images, from which the pixels that each place of the window sees can be cut.

    A stride is a reshape into rows of that length, not a slice with steps: a compiler for GPUs ended in a failed check
    where such slices enter a product.
    """

    def __init__(self, images: Array, sides: Sequence[Side], axes: Sequence[int], filling: float | int = 0) -> None:
        self._steps = [side.steps(images.shape[axis]) for side, axis in zip(sides, axes, strict=True)]
        whole = padded(images, sides, axes, filling)
        shape, self._at = list[int](), dict[int, int]()
        for axis, length in enumerate(whole.shape):
            if axis in axes:
                side = sides[list(axes).index(axis)]
                self._at[axis] = len(shape)
                shape += [length // side.stride, side.stride] if side.stride > 1 else [length]
            else:
                shape.append(length)
        self._rows, self._sides, self._axes = whole.reshape(shape), sides, axes

    def seen(self, place: Sequence[int]) -> Array:
        """What one place of the window sees, for every window."""
        begin, end = [0] * self._rows.ndim, list(self._rows.shape)
        dropped = []
        for pixel, side, axis, steps in zip(place, self._sides, self._axes, self._steps, strict=True):
            row, rest = divmod(pixel * side.spread, side.stride)
            begin[self._at[axis]], end[self._at[axis]] = row, row + steps
            if side.stride > 1:
                begin[self._at[axis] + 1], end[self._at[axis] + 1] = rest, rest + 1
                dropped.append(self._at[axis] + 1)
        return lax.squeeze(lax.slice(self._rows, begin, end), dropped)

    def all_places(self) -> list[Array]:
        """What each place sees, the last axis fastest."""
        return [self.seen(place) for place in itertools.product(*(range(side.size) for side in self._sides))]
