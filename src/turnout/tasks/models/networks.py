"""Networks for images; those of the papers have names."""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array

from turnout.declarations import Count, checked
from turnout.tasks.models import benchmark_networks
from turnout.tasks.models.layers import (
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    Layer,
    Pool,
    Relu,
    Shape,
    init_layers,
    run_layers,
)
from turnout.tasks.models.model import Model, Seed, linear, mlp
from turnout.types import Params, RandomKey

ModelName = Literal[
    "linear",
    "mlp",
    "mlp_batch_norm",
    "mlp_debiased",
    "cnn_ca_fed",
    "cnn_debiased",
    "cnn_debiased_batch_norm",
    "cnn_fedacs_mnist",
    "cnn_fedacs_cifar10",
    "cnn_fedacs_cinic10",
    "convnet4",
    "resnet8",
    "resnet18",
    "mobilenet",
]


@checked
@functools.cache
def network(image: Shape, layers: tuple[Layer, ...]) -> Model:
    """A network of layers for images of one shape, (height, width) or (height, width, channels)."""
    shape = (*image, 1) if len(image) == 2 else image

    def init(key: RandomKey) -> Params:
        return init_layers(layers, key, shape)[0]

    def run(params: Params, inputs: Array, seed: Seed | None) -> Array:
        return run_layers(layers, params, inputs.reshape(inputs.shape[0], *shape), seed)

    def apply(params: Params, inputs: Array) -> Array:
        return run(params, inputs, None)

    noisy = run if any(layer.draws for layer in layers) else None
    sample = jax.ShapeDtypeStruct(image, jnp.float32)
    return Model(init, apply, noisy, one_by_one_on_cpu=True, sample=sample, layers=layers, rewrite=False)


def cnn_ca_fed(num_classes: int) -> tuple[Layer, ...]:
    """CA-Fed's network for CIFAR-10: two convolutions and one fully connected layer of 2,048 before the output.

    Widths and kernels are those of its public code; the paper names the layers only.
    """
    convolutions = (Conv(32, 5, 0), Relu(), Pool(), Conv(64, 5, 0), Relu(), Pool())
    return (*convolutions, Dense(2048), Relu(), Dense(num_classes, last=True))


def cnn_debiased(num_classes: int, *norm: Layer) -> tuple[Layer, ...]:
    """Three convolutions, as Sun et al. 2025 have on CIFAR-10.

    Their text says no more and their public code has no such network: kernels of 3, widths 32, 64 and 128, each with
    ReLU and pooling, and a fully connected layer of 256 are chosen here. `norm` comes after each layer but the last.
    """
    convolutions: tuple[Layer, ...] = ()
    for width in (32, 64, 128):
        convolutions = (*convolutions, Conv(width), *norm, Relu(), Pool())
    return (*convolutions, Dense(256), *norm, Relu(), Dense(num_classes, last=True))


def cnn_debiased_batch_norm(num_classes: int) -> tuple[Layer, ...]:
    """The same with a batch norm after each layer but the last, as their public code has in its network for MNIST."""
    return cnn_debiased(num_classes, BatchNorm())


def cnn_fedacs_mnist(num_classes: int) -> tuple[Layer, ...]:
    """FedACS's network for MNIST: C(1,10), C(10,20) D, L(50), L(10), with ReLU and pooling between.

    Deviation: the paper's table prints neither ReLU nor pooling, which would leave a linear map; the layers printed are
    those of a well-known PyTorch example, where ReLU and pooling are functions instead of layers; here they are in the
    same places.
    """
    convolutions = (Conv(10), Pool(), Relu(), Conv(20), Dropout(0.2), Pool(), Relu())
    return (*convolutions, Dense(50), Relu(), Dense(num_classes, last=True))


def cnn_fedacs_cifar10(num_classes: int) -> tuple[Layer, ...]:
    """FedACS's network for CIFAR-10: C(3,32) R M, C(32,32) R M, L(256) R, L(64) R, L(10)."""
    convolutions = (Conv(32), Relu(), Pool(), Conv(32), Relu(), Pool())
    return (*convolutions, Dense(256), Relu(), Dense(64), Relu(), Dense(num_classes, last=True))


def cnn_fedacs_cinic10(num_classes: int) -> tuple[Layer, ...]:
    """FedACS's network for CINIC-10: C(3,32) R M, C(32,32) R M D, L(512) R D, L(256) R D, L(10)."""
    convolutions = (Conv(32), Relu(), Pool(), Conv(32), Relu(), Pool(), Dropout(0.2))
    dense = (Dense(512), Relu(), Dropout(0.2), Dense(256), Relu(), Dropout(0.2))
    return (*convolutions, *dense, Dense(num_classes, last=True))


_OF_PAPERS = (
    *(cnn_ca_fed, cnn_debiased, cnn_debiased_batch_norm),
    *(cnn_fedacs_mnist, cnn_fedacs_cifar10, cnn_fedacs_cinic10),
)
NETWORKS: dict[str, Callable[[int], tuple[Layer, ...]]] = {
    build.__name__: build for build in (*_OF_PAPERS, *benchmark_networks.NETWORKS)
}


@checked
def model_named(name: str, image: Shape, num_classes: Count, hidden: tuple[Count, ...] = (200, 200)) -> Model:
    """A model by its name for images of one shape; `hidden` is for "mlp" and "mlp_batch_norm"."""
    if name == "linear":
        return linear(math.prod(image), num_classes)
    if name == "mlp":
        return mlp(math.prod(image), hidden, num_classes)
    if name == "mlp_batch_norm":
        return mlp_batch_norm(image, hidden, num_classes)
    if name == "mlp_debiased":
        return mlp_debiased(image, num_classes)
    if name not in NETWORKS:
        raise ValueError(f"model is {name!r}; it must be one of {', '.join(get_args(ModelName))}")
    return network(image, NETWORKS[name](num_classes))


@functools.cache
def mlp_batch_norm(image: Shape, hidden: tuple[Count, ...], num_classes: int) -> Model:
    """A multi-layer perceptron with a batch norm before each ReLU.

    With hidden layers of 1568 and 392 it is the network of the public code of Sun et al. 2025 for MNIST. That never
    leaves training mode: its running statistics are averaged like parameters, but not used.
    """
    layers = tuple(layer for width in hidden for layer in (Dense(width), BatchNorm(), Relu()))
    return replace(network(image, (*layers, Dense(num_classes, last=True))), one_by_one_on_cpu=False)


def mlp_debiased(image: Shape, num_classes: int) -> Model:
    """The three-layer network of Sun et al. 2025 for MNIST, d − 2d − d/2 − 10, the widths of their public code.

    Their code, though not their text, has a batch norm after each hidden layer: that is `mlp_batch_norm`.
    """
    width = math.prod(image)
    return mlp(width, (2 * width, width // 2), num_classes)
