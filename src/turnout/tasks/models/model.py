"""Models as pairs of pure functions, so that a network of any library fits in one line; losses per sample."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, Shaped, UInt32

from turnout.declarations import Count, checked
from turnout.tasks.models.rewriting.rewrite import patch_numbers, rewritten
from turnout.types import Params, RandomKey

Inputs = Shaped[Array, "batch ..."]
Outputs = Float[Array, "batch outputs"]
Seed = UInt32[Array, ""]  # for random numbers of a model while it trains
Classes = Int[Array, " batch"]
Targets = Float[Array, " batch"]
PerSample = Float[Array, " batch"]


@dataclass(frozen=True, eq=False)
class FrozenBase:
    """Parameters that a model has beside those that are trained: held once, by the task."""

    params: Params
    model: Model  # whose functions take a pair: these parameters, and those that are trained
    merge: Callable[[Params, Params], Params]  # of such a pair, the parameters of the model that was adapted


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
    # One input without its batch axis, where the model is for inputs of one shape.
    sample: jax.ShapeDtypeStruct | None = None
    # What a network is made of, in order; other libraries' parameters are read by it.
    layers: tuple[Any, ...] = ()
    # Of a model with adapters (`turnout.tasks.adapt`): its frozen base.
    shared: FrozenBase | None = None
    # Whether convolutions and poolings take faster forms as a task runs the model (decision 0045).
    rewrite: bool = True

    @classmethod
    def from_module(cls, build: Callable[[RandomKey], Any], *, rewrite: bool = True) -> Model:
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

        return cls(init, apply, rewrite=rewrite)

    def outputs(self, params: Params, inputs: Array, seed: Seed | None = None) -> Array:
        """Outputs in the fastest form; with a seed those of `apply_noisily`, where there is one."""
        run = self.apply if seed is None or self.apply_noisily is None else self.apply_noisily
        more = () if run is self.apply or seed is None else (seed,)
        return (rewritten(run) if self.rewrite else run)(params, inputs, *more)

    def patch_numbers(self, inputs: jax.ShapeDtypeStruct, frozen: Params | None = None) -> int:
        """Numbers per sample that a rewritten convolution holds at once, for inputs of this kind; 0 if there is none.

        It is at least 1 where something is rewritten, be it a pooling. `frozen` are the parameters that the functions
        take beside those that are trained, as those of `adapt` do.
        """
        if not self.rewrite:
            return 0
        leaves, form = jax.tree.flatten(jax.eval_shape(lambda: frozen))
        return -(-_patch_numbers(self, inputs.shape, inputs.dtype, tuple(leaves), form) // inputs.shape[0])

    def as_written(self) -> Model:
        """The model with its convolutions and poolings as they are."""
        return replace(self, rewrite=False)


@functools.lru_cache(maxsize=64)
def _patch_numbers(
    model: Model, shape: tuple[int, ...], dtype: Any, frozen: tuple[jax.ShapeDtypeStruct, ...], form: Any
) -> int:
    trained = jax.eval_shape(model.init, jr.key(0))
    params = (jax.tree.unflatten(form, frozen), trained) if frozen else trained
    return patch_numbers(model.apply, params, jax.ShapeDtypeStruct(shape, dtype))


def in_type_of(inputs: Array, numbers: Array) -> Array:
    """The numbers in bfloat16 if the inputs have that type, as they are if not."""
    return numbers.astype(jnp.bfloat16) if inputs.dtype == jnp.bfloat16 else numbers


def in_types_of(inputs: Array, params: Params) -> Params:
    """Likewise for all parameters."""
    return jax.tree.map(lambda leaf: in_type_of(inputs, leaf), params)


def is_abstract_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


@checked
@functools.cache
def linear(num_inputs: Count, num_outputs: Count, bias: bool = True) -> Model:
    """A linear model, zero at the start; with a convex loss the start does not matter."""

    def init(key: RandomKey) -> Params:
        params = {"weight": jnp.zeros((num_outputs, num_inputs))}
        return {**params, "bias": jnp.zeros(num_outputs)} if bias else params

    return Model(init, linear_apply, sample=jax.ShapeDtypeStruct((num_inputs,), jnp.float32), rewrite=False)


def linear_apply(params: Params, inputs: Inputs) -> Outputs:
    # Weight stored (outputs, features) and outputs formed class-major: with one weight per client this is a batched
    # product that XLA's CPU backend does twice as fast.
    features = inputs.reshape(inputs.shape[0], -1)
    weight = in_type_of(features, params["weight"])
    outputs = jnp.einsum("cd,bd->cb", weight, features, preferred_element_type=jnp.float32)
    if "bias" in params:
        outputs = outputs + params["bias"][:, None]
    return outputs.T


@checked
@functools.cache
def mlp(num_inputs: Count, hidden: tuple[Count, ...] = (200, 200), num_outputs: Count = 10) -> Model:
    """A multi-layer perceptron with ReLU between layers: He weights inside, Glorot at the output, zero biases."""
    widths = (num_inputs, *hidden, num_outputs)

    def init(key: RandomKey) -> Params:
        layers = []
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            variance = 2 / before if i < len(hidden) else 2 / (before + after)
            weight = math.sqrt(variance) * jr.normal(jr.fold_in(key, i), (after, before))
            layers.append({"weight": weight, "bias": jnp.zeros(after)})
        return layers

    return Model(init, mlp_apply, sample=jax.ShapeDtypeStruct((num_inputs,), jnp.float32), rewrite=False)


def mlp_apply(params: Params, inputs: Inputs) -> Outputs:
    outputs = inputs.reshape(inputs.shape[0], -1)
    for i, layer in enumerate(params):
        outputs = linear_apply(layer, in_type_of(inputs, jax.nn.relu(outputs)) if i else outputs)
    return outputs


def cross_entropy(outputs: Outputs, labels: Classes) -> PerSample:
    """Negative log-probability of the label when the outputs are logits."""
    # Class-major, as models.linear forms them: the two transposes cancel. Comparing is cheaper than gathering.
    logits = outputs.T
    chosen = jnp.arange(logits.shape[0], dtype=labels.dtype)[:, None] == labels[None, :]
    # A plain log-sum-exp: jax.nn.logsumexp guards against infinities at a tenth of the time of a whole local step.
    largest = jax.lax.stop_gradient(jnp.max(logits, axis=0, keepdims=True))
    total = jnp.sum(jnp.exp(logits - largest), axis=0)
    return jnp.log(total) + largest[0] - jnp.sum(jnp.where(chosen, logits, 0.0), axis=0)


def logistic(outputs: Outputs, labels: Classes) -> PerSample:
    """Negative log-probability of a label in {0, 1} when the only output is its log-odds."""
    log_odds = outputs[:, 0]
    return jax.nn.softplus(jnp.where(labels == 1, -log_odds, log_odds))


def squared(outputs: Outputs, labels: Targets) -> PerSample:
    """Half the squared error of the only output."""
    return 0.5 * (outputs[:, 0] - labels) ** 2


def log_quadratic(outputs: Outputs, labels: Targets) -> PerSample:
    """The robust loss log(½ (⟨a, x⟩ + b)² + 1) of Sun et al. 2024, where the label is added to the output."""
    return jnp.log1p(0.5 * (outputs[:, 0] + labels) ** 2)


def likeliest(outputs: Outputs, labels: Classes) -> PerSample:
    """One where the largest output is the label's."""
    return (jnp.argmax(outputs, axis=1).astype(labels.dtype) == labels).astype(outputs.dtype)


def right_side(outputs: Outputs, labels: Classes) -> PerSample:
    """One where the sign of the log-odds is the label's."""
    return ((outputs[:, 0] > 0) == (labels == 1)).astype(outputs.dtype)


@dataclass(frozen=True)
class Loss:
    """How a model's outputs are judged against the labels."""

    per_sample: Callable[[Array, Array], Array]
    correct: Callable[[Array, Array], Array] | None  # None for regression
    labels: Literal["class", "binary", "real"]


LOSSES: dict[str, Loss] = {
    "cross_entropy": Loss(cross_entropy, likeliest, "class"),
    "logistic": Loss(logistic, right_side, "binary"),
    "squared": Loss(squared, None, "real"),
    "log_quadratic": Loss(log_quadratic, None, "real"),
}


def loss_named(loss: str | Loss) -> Loss:
    """A loss by its name; a loss stays what it is."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}; it must be one of {', '.join(LOSSES)}, or a Loss")
    return LOSSES[loss]
