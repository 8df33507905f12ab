"""Models as pairs of pure functions, so that a network of any library fits in one line."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Shaped, UInt32

from turnout.types import Params, RandomKey

Inputs = Shaped[Array, "batch ..."]
Outputs = Float[Array, "batch outputs"]
Seed = UInt32[Array, ""]  # for random numbers of a model while it trains


@dataclass(frozen=True)
class Model:
    """A pair of pure functions: parameters from a key, and outputs from parameters and a batch of inputs.

    Models compare by identity of their functions and are static to the compiler: build one once and pass it around. An
    equinox module that takes one sample fits in a line:

    >>> model = Model.from_module(lambda key: eqx.nn.MLP(64, 10, 32, depth=2, key=key))

    `turnout.tasks.from_flax` and `turnout.tasks.from_torch` do the same for flax and PyTorch.
    """

    init: Callable[[RandomKey], Params]
    apply: Callable[[Params, Array], Array]
    # Used in training instead of `apply`, as for dropout: it also takes a seed.
    apply_noisily: Callable[[Params, Array, Seed], Array] | None = None
    # Whether clients train faster one after another on a CPU, because the step of one fills the cache.
    one_by_one_on_cpu: bool = False

    @classmethod
    def from_module(cls, build: Callable[[RandomKey], Any]) -> Model:
        """The model of an equinox module: its float arrays are trained, all else (sizes, activations) is fixed."""
        skeleton = eqx.filter_eval_shape(build, jr.key(0))
        fixed = eqx.filter(skeleton, is_abstract_array, inverse=True)
        for leaf in jax.tree.leaves(eqx.filter(skeleton, is_abstract_array)):
            if not jnp.issubdtype(leaf.dtype, jnp.inexact):
                raise ValueError(f"the module holds an array of {leaf.dtype}, which cannot be trained; make it static")

        def init(key: RandomKey) -> Params:
            return eqx.filter(build(key), eqx.is_array)

        def apply(params: Params, inputs: Array) -> Array:
            return jax.vmap(eqx.combine(in_types_of(inputs, params), fixed))(inputs).astype(jnp.float32)

        return cls(init, apply)


def in_type_of(inputs: Array, numbers: Array) -> Array:
    """The numbers in bfloat16 if the inputs have that type, as they are if not."""
    return numbers.astype(jnp.bfloat16) if inputs.dtype == jnp.bfloat16 else numbers


def in_types_of(inputs: Array, params: Params) -> Params:
    """Likewise for all parameters."""
    return jax.tree.map(lambda leaf: in_type_of(inputs, leaf), params)


def is_abstract_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


@functools.cache
def linear(num_inputs: int, num_outputs: int, bias: bool = True) -> Model:
    """A linear model, zero at the start; with a convex loss the start does not matter."""

    def init(key: RandomKey) -> Params:
        params = {"weight": jnp.zeros((num_outputs, num_inputs))}
        return {**params, "bias": jnp.zeros(num_outputs)} if bias else params

    return Model(init, linear_apply)


def linear_apply(params: Params, inputs: Inputs) -> Outputs:
    # Weight stored (outputs, features) and outputs formed class-major: with one weight per client this is a batched
    # product that XLA's CPU backend does twice as fast.
    features = inputs.reshape(inputs.shape[0], -1)
    weight = in_type_of(features, params["weight"])
    outputs = jnp.einsum("cd,bd->cb", weight, features, preferred_element_type=jnp.float32)
    if "bias" in params:
        outputs = outputs + params["bias"][:, None]
    return outputs.T


@functools.cache
def mlp(num_inputs: int, hidden: tuple[int, ...] = (200, 200), num_outputs: int = 10) -> Model:
    """A multi-layer perceptron with ReLU between layers: He weights inside, Glorot at the output, zero biases."""
    widths = (num_inputs, *hidden, num_outputs)

    def init(key: RandomKey) -> Params:
        layers = []
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            variance = 2 / before if i < len(hidden) else 2 / (before + after)
            weight = math.sqrt(variance) * jr.normal(jr.fold_in(key, i), (after, before))
            layers.append({"weight": weight, "bias": jnp.zeros(after)})
        return layers

    return Model(init, mlp_apply)


def mlp_apply(params: Params, inputs: Inputs) -> Outputs:
    outputs = inputs.reshape(inputs.shape[0], -1)
    for i, layer in enumerate(params):
        outputs = linear_apply(layer, in_type_of(inputs, jax.nn.relu(outputs)) if i else outputs)
    return outputs
