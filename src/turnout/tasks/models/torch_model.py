"""Models from modules of PyTorch, which torchax makes functions of jax."""

from __future__ import annotations

import copy
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from turnout.tasks.models.model import Model, in_types_of
from turnout.types import Params, RandomKey

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # buffers that a batch norm changes as it trains
ELSEWHERE = "or train the module on real or simulated nodes with Flower: docs/flower_pytorch.md"


def from_torch(module: Any) -> Model:
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

    return Model(init, apply)
