"""Gaussian noise on every entry of an update."""

import jax
import jax.numpy as jnp
import jax.random as jr

from turnout.declarations import NotNegativeScalar
from turnout.types import Params
from turnout.uploads.base import Shapes, Upload, UploadContext, WireSize


class Noise(Upload[None]):
    """Independent normal noise of standard deviation `scale`, drawn anew for every upload.

    In a simulation the draws follow from the seed. On real nodes each client has a key of its own, which nobody else
    knows.
    """

    adds_noise = True

    scale: NotNegativeScalar

    def encode(self, update: Params, state: None, context: UploadContext) -> tuple[Params, None]:
        leaves, structure = jax.tree.flatten(update)
        root = jr.key(context.seed) if context.noise_key is None else context.noise_key
        keys = jr.split(root, len(leaves))
        noisy = [
            leaf + jnp.asarray(self.scale, leaf.dtype) * jr.normal(key, leaf.shape, leaf.dtype)
            for key, leaf in zip(keys, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, noisy), state

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        """Every entry is sent in full: none is zero any more, nor one of few levels."""
        return WireSize.whole(params)
