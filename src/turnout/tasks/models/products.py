"""Where a model multiplies by its parameters: found by following the traced program from parameter to product.

A parameter may be transposed, reshaped or rounded on its way, and the product may stand inside a compiled function, a
loop, a choice or a part that is computed again for the gradient. Functions with a derivative of their own are left
alone, as their rule would be lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from turnout.types import PyTree

Shape = tuple[int, ...]
Turn = tuple[str, tuple[int, ...]]  # "transpose" with the order of the axes, or "reshape" with the new shape


@dataclass(frozen=True)
class Weight:
    """A parameter on its way to a product."""

    path: str
    shape: Shape  # as it is now
    turns: tuple[tuple[Turn, Shape], ...] = ()  # each with the shape before it

    def turned(self, turn: Turn, shape: Shape) -> Weight:
        return replace(self, shape=shape, turns=(*self.turns, (turn, self.shape)))


@dataclass(frozen=True)
class Product:
    """A product by one parameter: the parameter as it is multiplied, and the axes that are summed over."""

    weight: Weight
    summed: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.weight.shape)) if axis not in self.summed)

    @property
    def inputs(self) -> Shape:
        return tuple(self.weight.shape[axis] for axis in self.summed)

    @property
    def outputs(self) -> Shape:
        return tuple(self.weight.shape[axis] for axis in self.kept)

    def as_stored(self, difference: Array) -> Array:
        """What is (*inputs, *outputs) here in the shape of the parameter."""
        order = (*self.summed, *self.kept)
        difference = difference.transpose([order.index(axis) for axis in range(len(order))])
        for (kind, argument), before in reversed(self.weight.turns):
            if kind == "transpose":
                difference = difference.transpose([argument.index(axis) for axis in range(len(argument))])
            else:
                difference = difference.reshape(before)
        return difference


# Called at every product by a parameter: with the product, the other factor, whether the parameter is the first
# factor, the axes of the other factor that are summed over, and the result; returns what takes the result's place.
Meet = Callable[[Product, Array, bool, tuple[int, ...], Array], Array]


def paths_of(params: PyTree) -> list[str]:
    """The path of every parameter, in the order of the leaves: blocks/0/attention/query_proj/weight."""
    return [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
    ]


def run_meeting(apply: Callable[[PyTree, Array], Array], params: PyTree, inputs: Array, meet: Meet) -> Array:
    """What `apply` returns, with `meet` called at every product by a parameter."""
    closed = jax.make_jaxpr(apply)(params, inputs)
    leaves = jax.tree.leaves(params)
    weights = [Weight(path, leaf.shape) for path, leaf in zip(paths_of(params), leaves, strict=True)]
    return _Walk(meet).run(closed.jaxpr, closed.consts, [*leaves, inputs], [*weights, None])[0]


def products_of(apply: Callable[[PyTree, Array], Array], params: PyTree, inputs: Any) -> list[Product]:
    """All products by a parameter, each once, in the order of the program."""
    found: dict[Product, None] = {}

    def meet(product: Product, other: Array, first: bool, axes: tuple[int, ...], result: Array) -> Array:
        found[product] = None
        return result

    jax.eval_shape(functools.partial(run_meeting, apply, meet=meet), params, inputs)
    return list(found)


class _Walk:
    """Runs a traced program equation by equation."""

    def __init__(self, meet: Meet) -> None:
        self.meet = meet

    def run(
        self, jaxpr: Any, consts: Sequence[Any], values: Sequence[Any], weights: Sequence[Weight | None]
    ) -> list[Any]:
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True))
        on_the_way = {var: weight for var, weight in zip(jaxpr.invars, weights, strict=True) if weight is not None}

        def read(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            given = [read(atom) for atom in equation.invars]
            there = [None if hasattr(atom, "val") else on_the_way.get(atom) for atom in equation.invars]
            outputs = self._inside(equation, given, there) if any(there) else None
            if outputs is None:
                outputs = _bind(equation, given)
            known.update(zip(equation.outvars, outputs, strict=True))
            if equation.primitive.name == "dot_general":
                known[equation.outvars[0]] = self._product(equation, given, there, outputs[0])
            elif there and there[0] is not None and (moved := _moved(there[0], equation)) is not None:
                on_the_way[equation.outvars[0]] = moved
        return [read(atom) for atom in jaxpr.outvars]

    def _product(self, equation: Any, given: list[Any], there: list[Weight | None], result: Array) -> Array:
        summed, batched = equation.params["dimension_numbers"]
        if any(batched[0]) or len(batched[0]) or (there[0] is None) == (there[1] is None):
            return result
        side = 0 if there[0] is not None else 1
        weight = there[side]
        assert weight is not None
        if len(summed[side]) == len(weight.shape):  # a sum alone: there is no matrix
            return result
        product = Product(weight, tuple(summed[side]))
        return self.meet(product, given[1 - side], side == 0, tuple(summed[1 - side]), result)

    def _inside(self, equation: Any, given: list[Any], there: list[Weight | None]) -> list[Any] | None:
        """The outputs of an equation with a program inside, run likewise; None of any other."""
        name, params = equation.primitive.name, equation.params
        if name in ("jit", "pjit", "closed_call", "core_call"):
            inner = params.get("jaxpr") or params["call_jaxpr"]
            return self.run(*_parts(inner), given, there)
        if name in ("checkpoint", "remat", "remat2"):
            again = jax.checkpoint(
                lambda *values: self.run(*_parts(params["jaxpr"]), values, there),
                prevent_cse=params["prevent_cse"],
                policy=params["policy"],
            )
            return again(*given)
        if name == "scan":
            return self._scan(params, given, there)
        if name == "cond":
            branches = [
                lambda *values, branch=branch: self.run(*_parts(branch), values, there[1:])
                for branch in params["branches"]
            ]
            return jax.lax.switch(given[0], branches, *given[1:])
        return None

    def _scan(self, params: Any, given: list[Any], there: list[Weight | None]) -> list[Any]:
        """A loop, in which parameters that do not change from turn to turn are followed."""
        fixed, carried = params["num_consts"], params["num_consts"] + params["num_carry"]
        weights = [*there[:fixed], *[None] * (len(there) - fixed)]

        def turn(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            outputs = self.run(*_parts(params["jaxpr"]), [*given[:fixed], *carry, *row], weights)
            return outputs[: params["num_carry"]], outputs[params["num_carry"] :]

        options = {name: params[name] for name in ("length", "reverse", "unroll")}
        carry, rows = jax.lax.scan(turn, given[fixed:carried], given[carried:], **options)
        return [*carry, *rows]


def _parts(program: Any) -> tuple[Any, Sequence[Any]]:
    """A program and its constants, whether they are together or not."""
    return (program.jaxpr, program.consts) if hasattr(program, "jaxpr") else (program, ())


def _bind(equation: Any, given: list[Any]) -> list[Any]:
    params = equation.primitive.get_bind_params(equation.params)
    functions, params = ((), params) if isinstance(params, dict) else params  # older versions of jax give a pair
    outputs = equation.primitive.bind(*functions, *given, **params)
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def _moved(weight: Weight, equation: Any) -> Weight | None:
    """The parameter after an operation that moves or rounds its numbers only; None after any other."""
    name, shape = equation.primitive.name, tuple(equation.outvars[0].aval.shape)
    if name in ("convert_element_type", "copy", "copy_p", "optimization_barrier"):
        return weight
    if name == "transpose":
        return weight.turned(("transpose", tuple(equation.params["permutation"])), shape)
    is_reshape = name in ("squeeze", "expand_dims") or (name == "reshape" and equation.params["dimensions"] is None)
    if name == "broadcast_in_dim":  # which may only add axes of one
        kept = [size for size in shape if size != 1]
        is_reshape = kept == [size for size in weight.shape if size != 1]
    return weight.turned(("reshape", shape), shape) if is_reshape else None


def low_rank(product: Product, down: Array, up: Array, other: Array, first: bool, axes: tuple[int, ...]) -> Array:
    """The other factor times down (inputs × rank) times up (rank × outputs), in the shape of the product."""
    many = tuple(range(len(product.inputs)))
    if first:
        low = jax.lax.dot_general(down, other, ((many, axes), ((), ())))
        return jax.lax.dot_general(up, low, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32)
    low = jax.lax.dot_general(other, down, ((axes, many), ((), ())))
    return jax.lax.dot_general(low, up, (((low.ndim - 1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
