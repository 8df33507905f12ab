"""The usual augmentation of image benchmarks: random crops and flips, drawn for every sample of every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.declarations import CountOrZero, check_fields
from turnout.streams import below, scramble
from turnout.tasks.models.model import Seed

_SALT = 0xC2B2AE35  # apart from the seeds of a model's own noise
Black = float | tuple[float, ...]


@dataclass(frozen=True)
class Augment:
    """What is done to images while clients train on them; evaluations see them as they are.

    An image is cut out of itself with a black border, at a place drawn anew for every sample and step, from the
    client's own random bits; and every other one, at random, is mirrored.
    """

    unnamed: ClassVar[bool] = True  # a table of an experiment without a name
    crop: CountOrZero = 4  # pixels of the border; 0 for no crop
    flip: bool = True  # left becomes right

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs that are no images."""
        if len(shape) not in (2, 3):
            raise ValueError(f"augment is for images, of shape (height, width, channels) each; inputs are {shape}")

    def apply(self, images: Float[Array, "batch height width *channels"], black: Black, seed: Seed) -> Array:
        bits = scramble(scramble(seed ^ jnp.uint32(_SALT)) + jnp.arange(images.shape[0], dtype=jnp.uint32))
        down, across, mirrored = (scramble(bits + jnp.uint32(place)) for place in (1, 2, 3))
        if self.flip:
            mirror = (mirrored >> 31 == 1).reshape(-1, *(1,) * (images.ndim - 1))
            images = jnp.where(mirror, images[:, :, ::-1], images)
        if not self.crop:
            return images
        room = jnp.int32(2 * self.crop + 1)
        ink = jnp.asarray(black, images.dtype).reshape((1, 1, 1, -1) if images.ndim == 4 else ())
        border = [(0, 0), (self.crop, self.crop), (self.crop, self.crop), *[(0, 0)] * (images.ndim - 3)]
        # What is not black is padded with zeros, which is faster than a border of several colours.
        padded = jnp.pad(images - ink, border)

        def cut(image: Array, y: Array, x: Array) -> Array:
            start = (y, x, *[jnp.zeros((), y.dtype)] * (image.ndim - 2))
            return jax.lax.dynamic_slice(image, start, images.shape[1:])

        return jax.vmap(cut)(padded, below(down, room), below(across, room)) + ink
