"""Layers of deeper image networks: group norm, averages of pixels, depthwise convolutions and residual blocks."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from turnout.streams import scramble
from turnout.tasks.models.layers import (
    Layer,
    Outcome,
    Pictures,
    Pool,
    Shape,
    Vectors,
    convolved,
    init_layers,
    neighbours,
    through,
)
from turnout.tasks.models.model import Seed, in_type_of
from turnout.types import Params, RandomKey


@dataclass(frozen=True)
class GroupNorm(Layer):
    """Mean 0 and deviation 1 over the pixels of `groups` equal groups of channels, sample by sample; then gain, shift.

    It knows one sample only, so that it is the same in training and in evaluation.
    """

    groups: int = 2
    epsilon: float = 1e-5

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        if shape[-1] % self.groups:
            raise ValueError(f"groups is {self.groups}; it must divide the {shape[-1]} channels")
        return {"gain": jnp.ones(shape[-1]), "shift": jnp.zeros(shape[-1])}, shape

    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Array:
        if inputs.ndim == 2:
            return self.apply(params, inputs.T[:, None, None], seed)[:, 0, 0].T
        # One factor and one summand per channel and sample, so that images are read and written once.
        images = inputs.astype(jnp.float32)
        mean = self._over_groups(jnp.mean(images, (1, 2)))
        variance = self._over_groups(jnp.mean((images - mean[:, None, None]) ** 2, (1, 2)))
        factor = params["gain"][:, None] * jax.lax.rsqrt(variance + self.epsilon)
        summand = params["shift"][:, None] - mean * factor
        return in_type_of(inputs, images * factor[:, None, None] + summand[:, None, None])

    def _over_groups(self, means: Float[Array, "channels batch"]) -> Float[Array, "channels batch"]:
        """For each channel the mean of its group."""
        grouped = means.reshape(self.groups, -1, means.shape[1])
        return jnp.broadcast_to(grouped.mean(axis=1, keepdims=True), grouped.shape).reshape(means.shape)


@dataclass(frozen=True)
class AveragePool(Layer):
    """The mean of every square of pixels; a rest at the border is left out."""

    size: int = 2

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        return Pool(self.size).init(key, shape)

    def apply(self, params: Params, inputs: Pictures, seed: Seed | None) -> Outcome:
        channels, height, width, batch = inputs.shape
        down, across = height // self.size, width // self.size
        cropped = inputs[:, : down * self.size, : across * self.size]
        return cropped.reshape(channels, down, self.size, across, self.size, batch).mean(axis=(2, 4))


@dataclass(frozen=True)
class GlobalAverage(Layer):
    """The mean of all pixels, channel by channel."""

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        return {}, shape[-1:]

    def apply(self, params: Params, inputs: Pictures, seed: Seed | None) -> Vectors:
        return inputs.mean(axis=(1, 2)).T


@dataclass(frozen=True)
class Depthwise(Layer):
    """A convolution of every channel by itself: He weights, zero biases."""

    size: int = 3
    padding: int = 1
    stride: int = 1
    bias: bool = True

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        channels = shape[-1]
        params = {"weight": math.sqrt(2) / self.size * jr.normal(key, (self.size**2, channels))}
        outcome = (*convolved(shape, self.size, self.padding, self.stride), channels)
        return params | ({"bias": jnp.zeros(channels)} if self.bias else {}), outcome

    def apply(self, params: Params, inputs: Pictures, seed: Seed | None) -> Outcome:
        # A sum of products number by number: there is no matrix to multiply.
        kernel = in_type_of(inputs, params["weight"])[:, :, None, None, None]
        moved = neighbours(inputs, self.size, self.padding, self.stride)
        outputs = sum((weight * pixels for weight, pixels in zip(kernel, moved, strict=True)), jnp.zeros(()))
        return in_type_of(inputs, outputs + params["bias"][:, None, None, None] if self.bias else outputs)


@dataclass(frozen=True)
class Residual(Layer):
    """Some layers, to whose outputs the inputs are added; `shortcut` are layers for the inputs on that way."""

    layers: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    @property
    def draws(self) -> bool:
        return any(layer.draws for layer in (*self.layers, *self.shortcut))

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        params, after = init_layers(self.layers, jr.fold_in(key, 0), shape)
        beside, other = init_layers(self.shortcut, jr.fold_in(key, 1), shape)
        if after != other:
            raise ValueError(f"a residual block adds outputs of shape {after} to {other}; give its shortcut layers")
        return {"layers": params, "shortcut": beside}, after

    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Array:
        # Apart from the seeds of the layers around it, which count from the same one.
        inner = None if seed is None else scramble(seed)
        beside = None if seed is None else scramble(~seed)
        outputs = through(self.layers, params["layers"], inputs, inner)
        return outputs + through(self.shortcut, params["shortcut"], inputs, beside)
