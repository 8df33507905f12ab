"""Fine-tuning by low-rank adapters (LoRA, Hu et al. 2022): a frozen base, and two narrow matrices beside each product.

A product x W of the base becomes x W + scale · (x A) B with A of shape (inputs, rank) and B of shape (rank, outputs).
A is random and B zero at the start, so that training starts from the base. Trained, sent and remembered are A and B.
"""

from __future__ import annotations

import fnmatch
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from turnout.declarations import Count, Positive, check_fields, checked
from turnout.declarations.kinds import as_array
from turnout.tasks.models.model import FrozenBase, Model, Seed, in_type_of
from turnout.tasks.models.products import Product, low_rank, paths_of, run_meeting, uses_of
from turnout.tasks.models.state_dicts import check_params, load_params
from turnout.types import Params, PyTree, RandomKey

Patterns = str | Sequence[str]
Precision = Literal["float32", "bfloat16"]
SHOWN = 6  # paths that an error lists


@dataclass(frozen=True)
class Adapt:
    """The adapters of a task, as a table of an experiment gives them: the arguments of `adapt`, and where the base is.

    In Python, too: `text(model="transformer", adapt=Adapt(base="folder"))`.
    """

    unnamed: ClassVar[bool] = True  # a table of an experiment without a name
    base: str  # a folder with model.safetensors, or such a file
    rank: Count = 8
    where: str | Sequence[str] = ()
    whole: str | Sequence[str] = ()
    scale: Positive = 1.0
    precision: Precision | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def on_base(model: Model, options: Adapt | None) -> Model:
    """The model with adapters of the base that the options name; without options as it is."""
    if options is None:
        return model
    base = load_params(options.base, model)
    return adapt(
        model, base, options.rank, options.where, whole=options.whole, scale=options.scale, precision=options.precision
    )


# Long: the docstring explains many arguments.
@checked
def adapt(
    model: Model,
    params: PyTree,
    rank: Count = 8,
    where: Patterns = (),
    *,
    whole: Patterns = (),
    scale: Positive = 1.0,
    sample: Any = None,
    precision: Precision | None = None,
) -> Model:
    """Make a model that trains adapters of these parameters, which stay as they are.

    Args:
        model: any model: its products by a parameter are found in its traced program.
        params: the parameters of the base, as the model's `init` makes them.
        rank: columns of A and rows of B, at most; a product that is narrower has adapters as wide as itself.
        where: parts of paths, or patterns such as "blocks/*/attention"; only products by such parameters are adapted,
            by default all. `adapted_paths` lists them.
        whole: likewise, parameters that are trained in full beside the adapters, such as a new last layer; sent and
            remembered is their difference from the base.
        scale: factor of what the adapters add; "alpha / rank" of other libraries.
        sample: one input without batch axis, or its shape as a tuple; networks of ours know it, other models need it.
        precision: of the frozen base as it is held; by default bfloat16 on a GPU, float32 elsewhere.

    """
    shared = model.shared
    if shared is not None:
        raise ValueError("the model has adapters already: merge them first, with merge_adapters(model, params)")
    check_params(model, params)
    leaves, form = jax.tree.flatten(params)
    shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, jnp.float32) for leaf in map(np.asarray, leaves))
    settings = (rank, _patterns(where), _patterns(whole), scale, _sample(model, sample))
    bare, adapters = _adapted(model, form, shapes, *settings)
    held = precision or ("float32" if jax.default_backend() == "cpu" else "bfloat16")
    base = jax.tree.map(lambda leaf: jnp.asarray(leaf, held), params)
    return _with_base(bare, adapters, base)


@checked
def merge_adapters(model: Model, params: PyTree) -> Params:
    """The parameters of the base with those of a model of `adapt` added, for the model without adapters."""
    if model.shared is None:
        raise ValueError("the model has no adapters: give one that adapt returned")
    check_params(model, params)
    return model.shared.merge(model.shared.params, params)


@checked
def adapted_paths(model: Model, params: PyTree, sample: Any = None) -> list[str]:
    """The paths of all parameters that a model multiplies by: what `where` chooses from."""
    check_params(model, params)
    example = _sample(model, sample)
    return list(_products(model, params, example))


def _patterns(given: Patterns) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _sample(model: Model, given: Any) -> jax.ShapeDtypeStruct:
    if given is None:
        if model.sample is None:
            raise ValueError("sample is missing: give one input without batch axis, or its shape as a tuple")
        return model.sample
    if isinstance(given, tuple) and all(isinstance(size, int) and size > 0 for size in given):
        return jax.ShapeDtypeStruct(given, jnp.float32)
    array = as_array(given)
    if array is None or array.dtype.kind == "b":
        raise TypeError(f"sample is {given!r:.40}; it must be one input without batch axis, or its shape as a tuple")
    return jax.ShapeDtypeStruct(array.shape, jnp.int32 if array.dtype.kind in "iu" else jnp.float32)


def _products(model: Model, params: PyTree, sample: jax.ShapeDtypeStruct) -> dict[str, Product]:
    """For every parameter by which a model multiplies, the first product, for a batch of such inputs."""
    batch = jax.ShapeDtypeStruct((2, *sample.shape), sample.dtype)
    try:
        uses = uses_of(model.apply, params, batch)
    except (TypeError, ValueError, IndexError) as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"sample: the model takes no {sample.dtype} input of shape {sample.shape}: {first}") from error
    return {path: next(iter(products)) for path, products in uses.products.items()}


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern is the path, or a stretch of it."""
    return any(fnmatch.fnmatchcase(path, form) for form in (pattern, f"{pattern}/*", f"*/{pattern}", f"*/{pattern}/*"))


def _chosen(paths: Sequence[str], patterns: tuple[str, ...], what: str) -> list[str]:
    for pattern in patterns:
        if not any(_matches(pattern, path) for path in paths):
            some = ", ".join(paths[:SHOWN]) + (", …" if len(paths) > SHOWN else "")
            raise ValueError(f"{what}: no parameter matches {pattern!r}; there are {some}")
    return [path for path in paths if any(_matches(pattern, path) for pattern in patterns)]


@functools.lru_cache(maxsize=64)
def _adapted(
    model: Model,
    form: Any,
    shapes: tuple[jax.ShapeDtypeStruct, ...],
    rank: int,
    where: tuple[str, ...],
    whole: tuple[str, ...],
    scale: float,
    sample: jax.ShapeDtypeStruct,
) -> tuple[Model, Adapters]:
    """A model whose parameters are a pair, of the base and of what is trained.

    Equal arguments have the same functions, which the compiler knows again.
    """
    like = jax.tree.unflatten(form, shapes)
    in_full = _chosen(paths_of(like), whole, "whole")
    products = {path: each for path, each in _products(model, like, sample).items() if path not in in_full}
    if where:
        products = {path: products[path] for path in _chosen(list(products), where, "where")}
    if not products:
        raise ValueError("the model multiplies by no parameter that is left to adapt; choose others by where or whole")
    adapters = Adapters(like, tuple(in_full), products, rank, scale)
    noisily = model.apply_noisily

    def apply(pair: Any, inputs: Array) -> Array:
        base, trained = pair
        return adapters.run(model.apply, base, trained, inputs)

    def apply_noisily(pair: Any, inputs: Array, seed: Seed) -> Array:
        (base, trained), draw = pair, noisily
        assert draw is not None
        return adapters.run(lambda params, inputs: draw(params, inputs, seed), base, trained, inputs)

    noisy = None if noisily is None else apply_noisily
    return replace(model, init=adapters.init, apply=apply, apply_noisily=noisy, layers=()), adapters


@dataclass(frozen=True)
class Adapters:
    """Which products of a model have adapters, and what these do."""

    like: PyTree  # shapes of the base
    whole: tuple[str, ...]  # parameters that are trained in full
    products: dict[str, Product]
    rank: int
    scale: float

    def init(self, key: RandomKey) -> Params:
        adapters = {}
        for place, (path, product) in enumerate(self.products.items()):
            inputs, outputs = math.prod(product.inputs), math.prod(product.outputs)
            width = min(self.rank, inputs, outputs)
            down = jr.normal(jr.fold_in(key, place), (*product.inputs, width)) / math.sqrt(inputs)
            adapters[path] = {"down": down, "up": jnp.zeros((width, *product.outputs))}
        sizes = dict(zip(paths_of(self.like), jax.tree.leaves(self.like), strict=True))
        return {"adapters": adapters, "whole": {path: jnp.zeros(sizes[path].shape) for path in self.whole}}

    def shifted(self, base: Params, trained: Params, paths: Sequence[str]) -> Params:
        """The base with the differences of what is trained in full, and of the adapters of these paths."""
        every, form = paths_of(self.like), jax.tree.structure(self.like)
        leaves = dict(zip(every, (leaf.astype(jnp.float32) for leaf in jax.tree.leaves(base)), strict=True))
        for path, difference in trained["whole"].items():
            leaves[path] = leaves[path] + difference
        for path in paths:
            matrices = trained["adapters"][path]
            added = self.scale * jnp.tensordot(matrices["down"], matrices["up"], 1)
            leaves[path] = leaves[path] + self.products[path].as_stored(added)
        return jax.tree.unflatten(form, [leaves[path] for path in every])

    def merged(self, base: Params, trained: Params) -> Params:
        return self.shifted(base, trained, list(self.products))

    def run(self, function: Callable[[Params, Array], Array], base: Params, trained: Params, inputs: Array) -> Array:
        """What a function of parameters and inputs returns, with adapters beside its products."""
        uses = uses_of(function, self.like, jax.ShapeDtypeStruct(inputs.shape, inputs.dtype))
        beside = [path for path, product in self.products.items() if uses.only_product(path) == product]
        # A parameter that is used in several ways, as by an embedding and by the output, or by a kernel of its own on
        # some devices, is shifted for all of them.
        params = self.shifted(base, trained, [path for path in self.products if path not in beside])

        def meet(product: Product, other: Array, first: bool, axes: tuple[int, ...], result: Array) -> Array:
            path = product.weight.path
            if path not in beside:
                return result
            down, up = (in_type_of(other, trained["adapters"][path][part]) for part in ("down", "up"))
            return result + (self.scale * low_rank(product, down, up, other, first, axes)).astype(result.dtype)

        return run_meeting(function, params, inputs, meet)


def _with_base(bare: Model, adapters: Adapters, base: Params) -> Model:
    noisily = bare.apply_noisily
    return replace(
        bare,
        apply=lambda params, inputs: bare.apply((base, params), inputs),
        apply_noisily=None if noisily is None else lambda params, inputs, seed: noisily((base, params), inputs, seed),
        shared=FrozenBase(base, bare, adapters.merged),
    )
