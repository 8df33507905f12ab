"""Models from modules of flax, linen and nnx, and of PyTorch, which torchax makes functions of jax.

Flax itself is needed only for nnx.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from turnout.tasks.models.model import Model, Seed, in_types_of
from turnout.types import Params, RandomKey

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # buffers that a batch norm changes as it trains
ELSEWHERE = "or train the module on real or simulated nodes with Flower: docs/flower_pytorch.md"


def from_flax(
    module: Any,
    sample: Any = None,
    *,
    train: Mapping[str, Any] | None = None,
    evaluate: Mapping[str, Any] | None = None,
    rewrite: bool = True,
) -> Model:
    """Make a model of a flax module that takes a batch of inputs.

    A linen module needs one `sample` without batch axis, or the shape of one as a tuple. `train` and `evaluate` are
    further arguments of its call, such as `{"deterministic": False}` and `{"deterministic": True}`; with `train`,
    dropout draws new random numbers in every step. For nnx, give a function from `nnx.Rngs` to the module. Modules that
    keep state, such as the running statistics of a batch norm, do not fit: a group norm or a layer norm does. `rewrite`
    is that of `Model`.
    """
    if hasattr(module, "init") and hasattr(module, "apply"):
        if sample is None:
            raise ValueError("sample is missing: a linen module needs one sample, or its shape as a tuple")
        return _of_linen(module, sample, train, dict(evaluate or {}), rewrite)
    if not callable(module) or hasattr(module, "__nnx_repr__") or isinstance(module, type):
        raise TypeError(
            f"module: given {_kind(module)}, expected a linen module, or a function from nnx.Rngs to an nnx module: "
            "lambda rngs: CNN(rngs=rngs)"
        )
    if train is not None or evaluate is not None:
        raise ValueError("train and evaluate are arguments of a linen module's call; an nnx module has none")
    return _of_nnx(module, rewrite)


def _kind(module: Any) -> str:
    return f"the class {module.__name__}" if isinstance(module, type) else f"an object of type {type(module).__name__}"


def _of_linen(
    module: Any, sample: Any, train: Mapping[str, Any] | None, evaluate: dict[str, Any], rewrite: bool
) -> Model:
    example = jnp.zeros(sample) if isinstance(sample, tuple) else jnp.asarray(np.asarray(sample))

    def variables(key: RandomKey) -> Any:
        return module.init(key, example[None], **evaluate)

    state = [name for name in jax.eval_shape(variables, jr.key(0)) if name != "params"]
    if state:
        raise ValueError(_keeps_state(type(module).__name__, state))

    def init(key: RandomKey) -> Params:
        return variables(key)["params"]

    def run(params: Params, inputs: Array, **more: Any) -> Array:
        return module.apply({"params": in_types_of(inputs, params)}, inputs, **more).astype(jnp.float32)

    def apply(params: Params, inputs: Array) -> Array:
        return run(params, inputs, **evaluate)

    def apply_noisily(params: Params, inputs: Array, seed: Seed) -> Array:
        return run(params, inputs, rngs={"dropout": jr.key(seed)}, **(train or {}))

    return Model(init, apply, None if train is None else apply_noisily, rewrite=rewrite)


def _of_nnx(build: Callable[[Any], Any], rewrite: bool) -> Model:
    from flax import nnx  # pyright: ignore[reportMissingImports]

    skeleton = nnx.eval_shape(lambda: build(nnx.Rngs(0)))
    graph, parameters, rest = nnx.split(skeleton, nnx.Param, ...)
    state = sorted({type(leaf).__name__ for _, leaf in nnx.to_flat_state(rest)})
    if state:
        raise ValueError(_keeps_state(type(skeleton).__name__, state))

    def init(key: RandomKey) -> Params:
        return nnx.to_pure_dict(nnx.state(build(nnx.Rngs(key)), nnx.Param))

    def apply(params: Params, inputs: Array) -> Array:
        filled = jax.tree.map(lambda leaf: leaf, parameters)
        nnx.replace_by_pure_dict(filled, in_types_of(inputs, params))
        return nnx.merge(graph, filled)(inputs).astype(jnp.float32)

    return Model(init, apply, rewrite=rewrite)


def _keeps_state(name: str, state: list[str]) -> str:
    return (
        f"{name} keeps state beside its parameters: {', '.join(state)}; only parameters are averaged, so use a group "
        "norm or a layer norm, and dropout of linen"
    )


def from_torch(module: Any, *, rewrite: bool = True) -> Model:
    """Make a model of a `torch.nn.Module` that takes a batch of inputs.

    Torchax makes a function of jax of it, which is compiled into the simulator like any model. Training starts from the
    parameters that the module has, with every seed. Parameters without a gradient and buffers stay as they are. Dropout
    is left out, as in `module.eval()`. A batch norm with running statistics does not fit: a group norm or a layer norm
    does.
    """
    try:
        import torchax  # pyright: ignore[reportMissingImports]
    except (ImportError, AttributeError) as error:  # the latter where torch is too new for torchax
        raise ImportError(
            f"torchax cannot be imported: {error}; pip install torchax 'torch<2.13', {ELSEWHERE}"
        ) from error
    if isinstance(module, type) or not hasattr(module, "named_parameters"):
        raise TypeError(f"module: given {module!r:.40}, expected a torch.nn.Module, such as nn.Linear(8, 3)")
    still = copy.deepcopy(module).eval()  # the caller's module stays as it is, and may train on
    if statistics := [name for name, _ in still.named_buffers() if name.rpartition(".")[2] in STATISTICS]:
        raise ValueError(
            f"{type(module).__name__} keeps running statistics, {', '.join(statistics)}; only parameters are averaged: "
            f"use a group norm or a layer norm, {ELSEWHERE}"
        )
    arrays, run = torchax.extract_jax(still)
    trained = {name for name, parameter in still.named_parameters() if parameter.requires_grad}
    start = {name: array for name, array in arrays.items() if name in trained}
    fixed = {name: array for name, array in arrays.items() if name not in trained}

    def init(key: RandomKey) -> Params:
        return dict(start)

    def apply(params: Params, inputs: Array) -> Array:
        return run({**fixed, **in_types_of(inputs, params)}, (inputs,)).astype(jnp.float32)

    return Model(init, apply, rewrite=rewrite)
