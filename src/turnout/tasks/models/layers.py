"""Layers of image networks.

A layer has `init(key, shape)`, which gives its parameters and the shape of its output, and `apply(params, inputs,
seed)`, where `seed` is for random numbers in training and None in evaluation.

Between layers a batch of images has its samples last and its channels first: patches, pooling and their gradients then
move whole rows of samples. A batch of vectors has its samples first. Layers compute in the type of their inputs;
products are summed in 32 bits whatever that is, and so are parameters kept.
"""

import abc
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Shaped

from turnout.streams import scramble
from turnout.tasks.models.model import Seed, in_type_of
from turnout.types import Params, RandomKey

Shape = tuple[int, ...]  # of one sample
Pictures = Float[Array, "channels height width batch"]
Outcome = Float[Array, "features down across batch"]
Vectors = Float[Array, "batch features"]


class Layer(abc.ABC):
    """One step of a network."""

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers while it trains."""
        return False

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        """Parameters and the shape of an output; by default no parameters and the shape of the input."""
        return {}, shape

    @abc.abstractmethod
    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Array:
        """Outputs of a batch."""


@dataclass(frozen=True)
class Conv(Layer):
    """A convolution: He weights, zero biases; before a norm, which takes any shift away, biases are of no use."""

    channels: int
    size: int = 3
    padding: int = 1
    stride: int = 1
    bias: bool = True

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        fan_in = self.size**2 * shape[-1]
        down, across = convolved(shape, self.size, self.padding, self.stride)
        params = {"weight": math.sqrt(2 / fan_in) * jr.normal(key, (fan_in, self.channels))}
        return params | ({"bias": jnp.zeros(self.channels)} if self.bias else {}), (down, across, self.channels)

    def apply(self, params: Params, inputs: Pictures, seed: Seed | None) -> Outcome:
        outputs = convolve(params["weight"], inputs, self.size, self.padding, self.stride)
        return in_type_of(inputs, outputs + params["bias"][:, None, None, None] if self.bias else outputs)


def convolved(image: Shape, size: int, padding: int, stride: int) -> tuple[int, int]:
    """Height and width of what a convolution makes of an image."""
    height, width = image[:2]
    if min(height, width) + 2 * padding < size:
        raise ValueError(f"a convolution of size {size} does not fit into an image of {height} × {width}")
    return (height + 2 * padding - size) // stride + 1, (width + 2 * padding - size) // stride + 1


def convolve(
    weight: Float[Array, "patch features"], images: Pictures, size: int, padding: int, stride: int = 1
) -> Outcome:
    """Convolution as one matrix product: the kernel times every patch of the images, as a column.

    Where each client has a kernel of its own, the convolution of the compiler becomes one in groups, which is
    several times slower than this product.
    """
    columns = patches(images, size, padding, stride)
    kernel = in_type_of(images, weight).T
    flat = jnp.matmul(kernel, columns.reshape(columns.shape[0], -1), preferred_element_type=jnp.float32)
    return flat.reshape(-1, *columns.shape[1:])


def patches(images: Pictures, size: int, padding: int, stride: int = 1) -> Float[Array, "patch down across batch"]:
    """The neighbourhood of every pixel: pixel by pixel and row by row, within each the channels."""
    return jnp.concatenate(neighbours(images, size, padding, stride))


def neighbours(images: Pictures, size: int, padding: int, stride: int = 1) -> list[Outcome]:
    """For each pixel of a kernel the images moved so far, so that what it meets lies where the output is."""
    down, across = convolved(images.shape[1:3], size, padding, stride)
    padded = jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    pairs = [(i, j) for i in range(size) for j in range(size)]
    if stride == 1:
        return [padded[:, i : i + down, j : j + across] for i, j in pairs]
    # Every stride-th row is a row of a reshaped image: slices that skip rows, before a product, crash the compiler
    # on a GPU.
    rest = [-length % stride for length in padded.shape[1:3]]
    squares = jnp.pad(padded, ((0, 0), (0, rest[0]), (0, rest[1]), (0, 0)))
    channels, height, width, batch = squares.shape
    squares = squares.reshape(channels, height // stride, stride, width // stride, stride, batch)
    return [
        squares[:, i // stride : i // stride + down, i % stride, j // stride : j // stride + across, j % stride]
        for i, j in pairs
    ]


def samples_last(images: Shaped[Array, "batch height width channels"]) -> Array:
    return images.transpose(3, 1, 2, 0)


def samples_first(inputs: Array) -> Array:
    """A batch of images with its samples first and its channels last; vectors are so already."""
    return inputs.transpose(3, 1, 2, 0) if inputs.ndim == 4 else inputs


@dataclass(frozen=True)
class Pool(Layer):
    """The largest of every square of pixels; a rest at the border is left out."""

    size: int = 2

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        height, width, channels = shape
        if min(height, width) < self.size:
            raise ValueError(f"there is no square of {self.size} pixels in an image of {height} × {width}")
        return {}, (height // self.size, width // self.size, channels)

    def apply(self, params: Params, inputs: Pictures, seed: Seed | None) -> Outcome:
        # A reshape and a maximum: the gradient of a window that is moved over the image would be a scatter.
        channels, height, width, batch = inputs.shape
        down, across = height // self.size, width // self.size
        cropped = inputs[:, : down * self.size, : across * self.size]
        return cropped.reshape(channels, down, self.size, across, self.size, batch).max(axis=(2, 4))


@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer: He weights, or Glorot's in the last layer; zero biases."""

    outputs: int
    last: bool = False

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        fan_in = math.prod(shape)
        variance = 2 / (fan_in + self.outputs) if self.last else 2 / fan_in
        weight = math.sqrt(variance) * jr.normal(key, (fan_in, self.outputs))
        return {"weight": weight, "bias": jnp.zeros(self.outputs)}, (self.outputs,)

    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Float[Array, "batch outputs"]:
        rows, weight = samples_first(inputs), in_type_of(inputs, params["weight"])
        outputs = jnp.matmul(rows.reshape(rows.shape[0], -1), weight, preferred_element_type=jnp.float32)
        return in_type_of(inputs, outputs + params["bias"][None, :])


@dataclass(frozen=True)
class Relu(Layer):
    """Negative numbers become zero."""

    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Array:
        return jax.nn.relu(inputs)


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Mean 0 and deviation 1 over `group` samples at a time and all pixels, channel by channel; then gain and shift.

    The statistics are always those of the samples at hand, in evaluation too, as of PyTorch's layer in training mode:
    there are no running means, since a model holds nothing but parameters. Samples of one client stand side by side
    when a task is evaluated, so a group has samples of one client, but for one group at each border. Samples that are
    left over are normalised together with those before them.
    """

    group: int = 8
    epsilon: float = 1e-5

    def init(self, key: RandomKey, shape: Shape) -> tuple[Params, Shape]:
        return {"gain": jnp.ones(shape[-1]), "shift": jnp.zeros(shape[-1])}, shape

    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Array:
        rows = samples_first(inputs).astype(jnp.float32)
        size = min(self.group, rows.shape[0])
        rest = rows.shape[0] % size
        groups = rows[: rows.shape[0] - rest].reshape(-1, size, *rows.shape[1:])
        outputs = self._normalise(groups).reshape(-1, *rows.shape[1:])
        if rest:
            outputs = jnp.concatenate([outputs, self._normalise(rows[None, -size:])[0, -rest:]])
        outputs = outputs * along_channels(params["gain"], outputs) + along_channels(params["shift"], outputs)
        outputs = in_type_of(inputs, outputs)
        return samples_last(outputs) if inputs.ndim == 4 else outputs

    def _normalise(self, groups: Array) -> Array:
        axes = tuple(range(1, groups.ndim - 1))
        centred = groups - jnp.mean(groups, axes, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred**2, axes, keepdims=True) + self.epsilon)


def along_channels(numbers: Float[Array, " channels"], like: Array) -> Array:
    """One number per channel in a shape that broadcasts."""
    return numbers.reshape((1,) * (like.ndim - 1) + (-1,))


@dataclass(frozen=True)
class Dropout(Layer):
    """While training each number is dropped with probability `rate`; those kept grow by 1 / (1 − rate)."""

    rate: float = 0.2

    @property
    def draws(self) -> bool:
        return True

    def apply(self, params: Params, inputs: Array, seed: Seed | None) -> Array:
        if seed is None:
            return inputs
        shape = samples_first(inputs).shape
        bits = scramble(seed + jnp.arange(inputs.size, dtype=jnp.uint32).reshape(shape))
        # A factor for the gradient to reuse: after a choice the compiler draws the bits again, at a quarter of a step.
        factor = jnp.where(bits >= jnp.uint32(int(self.rate * 2**32)), 1 / (1 - self.rate), 0.0).astype(inputs.dtype)
        return inputs * (samples_last(factor) if inputs.ndim == 4 else factor)


def run_layers(
    layers: tuple[Layer, ...], params: Any, images: Float[Array, "batch height width channels"], seed: Seed | None
) -> Vectors:
    """A batch of images through all layers, samples first before and after."""
    return samples_first(through(layers, params, samples_last(images), seed)).astype(jnp.float32)


def init_layers(layers: tuple[Layer, ...], key: RandomKey, shape: Shape) -> tuple[list[Params], Shape]:
    """Parameters of all layers, each from a key of its own, and the shape of an output."""
    params = []
    for place, layer in enumerate(layers):
        layer_params, shape = layer.init(jr.fold_in(key, place), shape)
        params.append(layer_params)
    return params, shape


def through(layers: tuple[Layer, ...], params: Any, inputs: Array, seed: Seed | None) -> Array:
    """A batch through all layers; each layer has its own random bits."""
    done = 0
    for place, (layer, layer_params) in enumerate(zip(layers, params, strict=True)):
        if place < done:
            continue
        if _in_one_kernel(layers[place : place + 3], inputs):
            inputs, done = _convolve_and_pool(layers[place : place + 3], layer_params, inputs), place + 3
        else:
            inputs = layer.apply(layer_params, inputs, None if seed is None else scramble(seed + jnp.uint32(place)))
    return inputs


def _in_one_kernel(layers: tuple[Layer, ...], inputs: Array) -> bool:
    """Whether a kernel of our own does these layers: it is faster in 16 bits, with whole words of samples."""
    kinds = [type(layer) for layer in layers]
    if kinds not in ([Conv, Relu, Pool], [Conv, Pool, Relu]) or Pool() not in layers:
        return False
    if not (isinstance(layers[0], Conv) and layers[0].stride == 1 and layers[0].bias):
        return False
    return inputs.dtype == jnp.bfloat16 and inputs.shape[-1] % 8 == 0 and on_hopper()


def _convolve_and_pool(layers: tuple[Layer, ...], params: Params, inputs: Pictures) -> Outcome:
    from turnout.tasks.models.fused import convolve_and_pool  # Pallas takes a while to import
    from turnout.tasks.models.windows import Window

    convolution = layers[0]
    assert isinstance(convolution, Conv)
    window = Window(convolution.size, convolution.padding, Pool().size)
    return convolve_and_pool(window, params["weight"], params["bias"], inputs)


def on_hopper() -> bool:
    """Whether programs run on an NVIDIA GPU of the generation for which the kernel's tiles were chosen."""
    return getattr(jax.local_devices()[0], "compute_capability", "").startswith("9.")
