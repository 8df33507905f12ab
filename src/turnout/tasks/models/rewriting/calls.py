"""Calls of programs inside a program: functions, own derivatives, recomputation, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from turnout.tasks.models.rewriting.layout import Laid, Order, Value, abstract, as_written, logical
from turnout.tasks.models.rewriting.programs import Equation, Program, calls_wanted, programs_inside, run_as_written

Walk = Callable[[Program, Sequence[Value]], list[Value]]
Rule = Callable[[Walk, Equation, Sequence[Value]], list[Value] | None]


def _function(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value]:
    (program,) = programs_inside(equation)
    return walk(program, values)


class _Stored:
    """A function of arrays as they are stored; it learns the orders of its results as it is traced."""

    def __init__(self, walk: Walk, program: Program, values: Sequence[Value]) -> None:
        self._walk, self._program = walk, program
        self._orders = [value.order for value in values]
        self.arrays = [value.in_order(value.order) for value in values]
        self.orders: list[Order] = []

    def laid(self, arrays: Sequence[Any]) -> list[Laid]:
        return [Laid(array, order) for array, order in zip(arrays, self._orders, strict=True)]

    def __call__(self, *arrays: Any) -> list[Array]:
        results = self._walk(self._program, self.laid(arrays))
        self.orders = [value.order for value in results]
        return [value.in_order(value.order) for value in results]

    def results(self, arrays: Sequence[Array]) -> list[Value]:
        return [Laid(array, order) for array, order in zip(arrays, self.orders, strict=True)]


def _recomputed(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value]:
    (program,) = programs_inside(equation)
    inside, params = _Stored(walk, program, values), equation.params
    # A function of its own: what jax remembers of a function it has seen would leave the orders unknown.
    again = jax.checkpoint(lambda *arrays: inside(*arrays), prevent_cse=params["prevent_cse"], policy=params["policy"])
    return inside.results(again(*inside.arrays))


def _own_tangent(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    """A function with a rule for its tangents: both are rewritten."""
    if not _all_real(values):
        return None
    (program,) = programs_inside(equation)
    inside = _Stored(walk, program, values)
    jax.eval_shape(inside, *inside.arrays)
    orders = list(inside.orders)
    kinds = [abstract(value) for value in values]

    def with_tangents(primals: list[Any], tangents: list[Any]) -> Any:
        return jax.jvp(lambda *arrays: run_as_written(equation, arrays), primals, tangents)

    @jax.custom_jvp
    def function(*arrays: Any) -> list[Array]:
        return inside(*arrays)

    @function.defjvp
    def rule(primals: Any, tangents: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        traced = jax.make_jaxpr(with_tangents)(kinds, kinds)
        found = walk(traced, [*inside.laid(primals), *inside.laid(tangents)])
        stored = [value.in_order(order) for value, order in zip(found, [*orders, *orders], strict=True)]
        return stored[: len(orders)], stored[len(orders) :]

    return [Laid(array, order) for array, order in zip(function(*inside.arrays), orders, strict=True)]


def _own_gradient(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    """A function with a rule for its gradient: the function, what it keeps and the rule are rewritten."""
    if not calls_wanted(equation) or not _all_real(values):
        return None
    (program,) = programs_inside(equation)
    kinds, kept = [abstract(value) for value in values], list[Any]()

    def forwards(*arrays: Any) -> Any:
        results, backwards = jax.vjp(lambda *inputs: run_as_written(equation, inputs), *arrays)
        leaves, structure = jax.tree.flatten(backwards)
        kept[:] = [structure]
        return results, leaves

    def plain(program: Program, arrays: Sequence[Any]) -> list[Array]:
        return [logical(value) for value in walk(program, [as_written(array) for array in arrays])]

    @jax.custom_vjp
    def function(*arrays: Any) -> list[Array]:
        return plain(program, arrays)

    def rule_forwards(*arrays: Any) -> Any:
        found, count = plain(jax.make_jaxpr(forwards)(*kinds), arrays), len(equation.outvars)
        return found[:count], found[count:]

    def rule_backwards(leaves: list[Array], gradients: list[Array]) -> Any:
        def backwards(leaves: list[Array], gradients: list[Array]) -> Any:
            return jax.tree.unflatten(kept[0], leaves)(gradients)

        return tuple(plain(jax.make_jaxpr(backwards)(leaves, gradients), [*leaves, *gradients]))

    function.defvjp(rule_forwards, rule_backwards)
    return [as_written(array) for array in function(*map(logical, values))]


def _all_real(values: Sequence[Value]) -> bool:
    return all(jnp.issubdtype(abstract(value).dtype, jnp.floating) for value in values)


def _scan(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    if not calls_wanted(equation):
        return None
    params, arrays = equation.params, [logical(value) for value in values]
    fixed, start = params["num_consts"], params["num_consts"] + params["num_carry"]

    def body(carry: list[Array], row: list[Array]) -> tuple[list[Array], list[Array]]:
        found = walk(params["jaxpr"], [as_written(array) for array in (*arrays[:fixed], *carry, *row)])
        results = [logical(value) for value in found]
        return results[: len(carry)], results[len(carry) :]

    end, rows = lax.scan(
        body,
        arrays[fixed:start],
        arrays[start:],
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [as_written(array) for array in (*end, *rows)]


def _while(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    if not calls_wanted(equation):
        return None
    params, arrays = equation.params, [logical(value) for value in values]
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def step(which: str, constants: list[Array], state: list[Array]) -> list[Array]:
        return [logical(value) for value in walk(params[which], [as_written(array) for array in (*constants, *state)])]

    end = lax.while_loop(
        lambda state: step("cond_jaxpr", arrays[:first], state)[0],
        lambda state: step("body_jaxpr", arrays[first:second], state),
        arrays[second:],
    )
    return [as_written(array) for array in end]


def _branches(walk: Walk, equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    if not calls_wanted(equation):
        return None
    index, *operands = [logical(value) for value in values]

    def branch(program: Program) -> Callable[..., list[Array]]:
        return lambda *arrays: [logical(value) for value in walk(program, [as_written(array) for array in arrays])]

    found = lax.switch(index, [branch(program) for program in equation.params["branches"]], *operands)
    return [as_written(array) for array in found]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("pjit", "jit", "closed_call", "core_call"), _function),
    **dict.fromkeys(("remat", "remat2", "checkpoint"), _recomputed),
    "custom_jvp_call": _own_tangent,
    **dict.fromkeys(("custom_vjp_call", "custom_vjp_call_jaxpr"), _own_gradient),
    "scan": _scan,
    "while": _while,
    "cond": _branches,
}
