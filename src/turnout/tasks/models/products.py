"""Where a model multiplies by its parameters: found by following the traced program from parameter to product.

A parameter may be transposed, reshaped or rounded on its way, and the product may stand inside a compiled function, a
loop, a choice or a part that is computed again for the gradient. Functions with a derivative of their own are left
alone, as their rule would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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


@dataclass
class Uses:
    """What a program does with its parameters, by their paths."""

    products: dict[str, dict[Product, None]] = field(
        default_factory=dict
    )  # different ones, in the order of the program
    elsewhere: set[str] = field(default_factory=set)  # parameters that are also used in another way

    def only_product(self, path: str) -> Product | None:
        """The product that is all that is done with a parameter, if so it is."""
        products = list(self.products.get(path, ()))
        return products[0] if len(products) == 1 and path not in self.elsewhere else None


def paths_of(params: PyTree) -> list[str]:
    """The path of every parameter, in the order of the leaves: blocks/0/attention/query_proj/weight."""
    return [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
    ]


def run_meeting(apply: Callable[[PyTree, Array], Array], params: PyTree, inputs: Array, meet: Meet) -> Array:
    """What `apply` returns, with `meet` called at every product by a parameter."""
    return _run(apply, params, inputs, meet, Uses())


def uses_of(apply: Callable[[PyTree, Array], Array], params: PyTree, inputs: Any) -> Uses:
    """How a model uses its parameters."""
    uses = Uses()

    def meet(product: Product, other: Array, first: bool, axes: tuple[int, ...], result: Array) -> Array:
        uses.products.setdefault(product.weight.path, {})[product] = None
        return result

    jax.eval_shape(lambda params, inputs: _run(apply, params, inputs, meet, uses), params, inputs)
    return uses


def _run(apply: Callable[[PyTree, Array], Array], params: PyTree, inputs: Array, meet: Meet, uses: Uses) -> Array:
    closed = jax.make_jaxpr(apply)(params, inputs)
    leaves = jax.tree.leaves(params)
    weights = [Weight(path, leaf.shape) for path, leaf in zip(paths_of(params), leaves, strict=True)]
    return _Walk(meet, uses).run(closed.jaxpr, closed.consts, [*leaves, inputs], [*weights, None])[0][0]


Values = Sequence[Any]
Weights = Sequence[Weight | None]


class _Walk:
    """Runs a traced program equation by equation."""

    def __init__(self, meet: Meet, uses: Uses) -> None:
        self.meet, self.uses = meet, uses

    def run(
        self, jaxpr: Any, consts: Values, values: Values, weights: Weights
    ) -> tuple[list[Any], list[Weight | None]]:
        """The outputs of a program, and which of them are parameters."""
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True))
        on_the_way = {var: weight for var, weight in zip(jaxpr.invars, weights, strict=True) if weight is not None}

        def read(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else known[atom]

        def weight_of(atom: Any) -> Weight | None:
            return None if hasattr(atom, "val") else on_the_way.get(atom)

        for equation in jaxpr.eqns:
            given, there = [read(atom) for atom in equation.invars], [weight_of(atom) for atom in equation.invars]
            outputs, moved = self._outputs(equation, given, there)
            known.update(zip(equation.outvars, outputs, strict=True))
            on_the_way.update(
                {var: weight for var, weight in zip(equation.outvars, moved, strict=True) if weight is not None}
            )
        return [read(atom) for atom in jaxpr.outvars], [weight_of(atom) for atom in jaxpr.outvars]

    def _outputs(self, equation: Any, given: Values, there: Weights) -> tuple[list[Any], list[Weight | None]]:
        """The outputs of one equation, and which of them are parameters."""
        nowhere: list[Weight | None] = [None] * len(equation.outvars)
        if not any(there):
            return _bind(equation, given), nowhere
        inside = self._inside(equation, given, there)
        if inside is not None:
            return inside
        outputs = _bind(equation, given)
        if equation.primitive.name == "dot_general" and (side := _side_of_weight(equation, there)) is not None:
            summed, weight = equation.params["dimension_numbers"][0], there[side]
            assert weight is not None
            product = Product(weight, tuple(summed[side]))
            return [self.meet(product, given[1 - side], side == 0, tuple(summed[1 - side]), outputs[0])], nowhere
        if there[0] is not None and (moved := _moved(there[0], equation)) is not None:
            return outputs, [moved]
        self._leave(there)
        return outputs, nowhere

    def _leave(self, weights: Weights) -> None:
        """Parameters that are followed no further."""
        self.uses.elsewhere |= {weight.path for weight in weights if weight is not None}

    def _closed(self, program: Any, there: Weights) -> Callable[..., list[Any]]:
        """A program as a function, out of which no parameter is followed."""

        def function(*values: Any) -> list[Any]:
            outputs, weights = self.run(*_parts(program), values, there)
            self._leave(weights)
            return outputs

        return function

    def _inside(self, equation: Any, given: Values, there: Weights) -> tuple[list[Any], list[Weight | None]] | None:
        """The outputs of an equation with a program inside, run likewise; None of any other."""
        name, params = equation.primitive.name, equation.params
        if name in ("jit", "pjit", "closed_call", "core_call"):
            return self.run(*_parts(params.get("jaxpr") or params["call_jaxpr"]), given, there)
        if name in ("checkpoint", "remat", "remat2"):
            options = {name: params[name] for name in ("prevent_cse", "policy")}
            outputs = jax.checkpoint(self._closed(params["jaxpr"], there), **options)(*given)
        elif name == "scan":
            outputs = self._scan(params, given, there)
        elif name == "cond":
            self._leave(there[:1])
            branches = [self._closed(branch, there[1:]) for branch in params["branches"]]
            outputs = jax.lax.switch(given[0], branches, *given[1:])
        else:
            return None
        return list(outputs), [None] * len(equation.outvars)

    def _scan(self, params: Any, given: Values, there: Weights) -> list[Any]:
        """A loop, in which parameters that do not change from turn to turn are followed."""
        fixed, carried = params["num_consts"], params["num_consts"] + params["num_carry"]
        self._leave(there[fixed:])
        body = self._closed(params["jaxpr"], [*there[:fixed], *[None] * (len(there) - fixed)])

        def turn(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            outputs = body(*given[:fixed], *carry, *row)
            return outputs[: params["num_carry"]], outputs[params["num_carry"] :]

        options = {name: params[name] for name in ("length", "reverse", "unroll")}
        carry, rows = jax.lax.scan(turn, list(given[fixed:carried]), list(given[carried:]), **options)
        return [*carry, *rows]


def _side_of_weight(equation: Any, there: Weights) -> int | None:
    """Which factor of a product of matrices is a parameter, if one is, and the other is not."""
    summed, batched = equation.params["dimension_numbers"]
    if len(batched[0]) or (there[0] is None) == (there[1] is None):
        return None
    side = 0 if there[0] is not None else 1
    weight = there[side]
    assert weight is not None
    return None if len(summed[side]) == len(weight.shape) else side  # a sum alone: there is no matrix


def _parts(program: Any) -> tuple[Any, Sequence[Any]]:
    """A program and its constants, whether they are together or not."""
    return (program.jaxpr, program.consts) if hasattr(program, "jaxpr") else (program, ())


def _bind(equation: Any, given: Values) -> list[Any]:
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
