"""Updates in a quarter of the bytes: one signed byte per entry, and one scale per array."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

from turnout.streams import scramble
from turnout.types import Params, divide
from turnout.uploads.base import Shapes, Upload, UploadContext, WireSize

LEVELS = 127  # either side of zero
_SCALE_BYTES = 4
_ALIKE = 1e-6  # relative difference of numbers that differ in their last bits only


class EightBit(Upload[None]):
    """Every entry as one of 255 levels between ± the largest of its array, rounded up or down by chance.

    Rounding by chance is right on average, so that errors of many clients cancel.
    """

    def encode(self, update: Params, state: None, context: UploadContext) -> tuple[Params, None]:
        leaves, structure = jax.tree.flatten(update)
        seeds = [scramble(context.seed + jnp.uint32(number + 1)) for number in range(len(leaves))]
        rounded = [_round(leaf, seed) for leaf, seed in zip(leaves, seeds, strict=True)]
        return jax.tree.unflatten(structure, rounded), state

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        arrays = len(jax.tree.leaves(params))
        return replace(size, value_bytes=1, extra_bytes=size.extra_bytes + _SCALE_BYTES * arrays)


def _round(values: Array, seed: UInt32[Array, ""]) -> Array:
    scale = jnp.max(jnp.abs(values)) / LEVELS
    levels = jnp.floor(divide(values, scale) + uniform(seed, values.shape).astype(values.dtype))
    return jnp.clip(levels, -LEVELS, LEVELS) * scale


def as_levels(values: np.ndarray) -> tuple[np.ndarray, np.float32] | None:
    """Signed bytes and the scale by which they make up an array that was rounded; None if it was not."""
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(values), initial=np.float32(0.0))
        for top in (LEVELS, LEVELS - 1):  # chance may round the largest entry itself one level down
            scale = np.float32(largest / top)
            levels = np.rint(values / scale) if scale != 0 else np.zeros_like(values)
            if np.allclose(levels * scale, values, rtol=_ALIKE, atol=0.0):
                return levels.astype(np.int8), scale
    return None


def uniform(seed: UInt32[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Numbers in [0, 1), by the same cheap hash that draws batches."""
    count = 1
    for length in shape:
        count *= length
    bits = scramble(seed + jnp.arange(count, dtype=jnp.uint32))
    return ((bits >> 8).astype(jnp.float32) * jnp.float32(2**-24)).reshape(shape)
