"""Transforms one after another."""

import functools
from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr

from turnout.declarations import check_fields
from turnout.streams import scramble
from turnout.types import Params, PyTree
from turnout.uploads.base import Shapes, Upload, UploadContext, WireSize


class Chain(Upload[None]):
    """The first transform, then the next on what it gave: `Chain((Clip(1.0), Noise(0.1)))`.

    Only transforms without a memory: one that remembers must stand around all that it corrects.
    """

    parts: tuple[Upload[PyTree], ...]

    def __check_init__(self) -> None:
        check_fields(self)
        if not self.parts:
            raise ValueError("a chain needs one transform or more")
        for part in self.parts:
            if part.has_memory:
                name = type(part).__name__
                raise ValueError(f"{name} cannot be a part of a chain: put it around, as {name}(Chain(…))")

    def encode(self, update: Params, state: None, context: UploadContext) -> tuple[Params, None]:
        for number, part in enumerate(self.parts):
            key = None if context.noise_key is None else jr.fold_in(context.noise_key, number)
            own = replace(context, seed=scramble(context.seed ^ jnp.uint32(number + 1)), noise_key=key)
            update, _ = part.encode(update, None, own)
        return update, state

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        return functools.reduce(lambda before, part: part.wire_size(before, params), self.parts, size)

    def inside(self) -> tuple[Upload[PyTree], ...]:
        return self.parts
