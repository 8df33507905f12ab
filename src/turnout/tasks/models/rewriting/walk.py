"""A traced program, run anew equation by equation with other forms of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core as jex
from jaxtyping import Array

from turnout.tasks.models.rewriting import calls, convolutions, poolings
from turnout.tasks.models.rewriting.carried import carry
from turnout.tasks.models.rewriting.layout import Value, abstract, as_written, logical, turned
from turnout.tasks.models.rewriting.programs import (
    CONVOLUTION,
    POOLINGS,
    Equation,
    Program,
    calls_wanted,
    opened,
    run_as_written,
)


def run(program: Program, arrays: Sequence[Any]) -> list[Array]:
    """The results of a program, stored as it was written."""
    return [logical(value) for value in walk(program, [as_written(array) for array in arrays])]


def walk(program: Program, values: Sequence[Value]) -> list[Value]:
    """Likewise, with arrays in whatever order they are stored."""
    jaxpr, constants = opened(program)
    known: dict[Any, Value] = dict(zip(jaxpr.constvars, map(as_written, constants), strict=True))
    known |= dict(zip(jaxpr.invars, values, strict=True))

    def read(atom: Any) -> Value:
        return as_written(_number(atom)) if isinstance(atom, jex.Literal) else known[atom]

    for equation in jaxpr.eqns:
        found = _results(equation, [read(atom) for atom in equation.invars])
        known |= dict(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _number(literal: Any) -> Any:
    """A number of the program's text, in its type."""
    return np.asarray(literal.val, literal.aval.dtype)


def _results(equation: Equation, values: Sequence[Value]) -> list[Value]:
    found = _rewritten(equation, values)
    if found is None:
        found = carry(equation, values)
    if found is not None:
        return found
    return [as_written(array) for array in run_as_written(equation, [logical(value) for value in values])]


def _rewritten(equation: Equation, values: Sequence[Value]) -> list[Value] | None:
    """The results of a convolution, a pooling or a call that has one; None for all else."""
    name, params = equation.primitive.name, equation.params
    if name == CONVOLUTION:
        if convolutions.why_not(params, abstract(values[0]), abstract(values[1])) is None:
            return [convolutions.convolve(values[0], values[1], params, equation.outvars[0].aval.dtype)]
    elif name in POOLINGS:
        if poolings.why_not(params, abstract(values[0])) is None:
            return [poolings.pool(name, values[0], params)]
    elif name in calls.RULES and (calls_wanted(equation) or any(map(turned, values))):
        return calls.RULES[name](walk, equation, values)
    return None
