"""What stands in a traced program: its equations, the programs inside them, and how to run one as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxtyping import Array

from turnout.tasks.models.rewriting.poolings import POOLINGS

CONVOLUTION = "conv_general_dilated"
WANTED = {CONVOLUTION, *POOLINGS}

Equation = Any  # of jax.extend.core, which exports its type without its fields
Program = Any  # a jaxpr, closed or not


def opened(program: Program) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and the constants that it closes over."""
    return (program.jaxpr, program.consts) if hasattr(program, "consts") else (program, ())


def programs_inside(equation: Equation) -> Iterator[Program]:
    """The programs that an equation calls."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if hasattr(opened(part)[0], "eqns"):
                yield part


def equations(program: Program) -> Iterator[Equation]:
    """All equations, also of programs inside."""
    for equation in opened(program)[0].eqns:
        yield equation
        for inner in programs_inside(equation):
            yield from equations(inner)


def has_wanted(program: Program) -> bool:
    """Whether there is a convolution or a pooling."""
    return any(equation.primitive.name in WANTED for equation in equations(program))


def calls_wanted(equation: Equation) -> bool:
    """Whether there is one in the programs that an equation calls."""
    return any(has_wanted(inner) for inner in programs_inside(equation))


def run_as_written(equation: Equation, arrays: Sequence[Any]) -> list[Array]:
    """The results of one equation."""
    bound = equation.primitive.get_bind_params(equation.params)
    if isinstance(bound, tuple):  # functions and the rest apart, in former versions of jax
        functions, rest = bound
        found = equation.primitive.bind(*functions, *arrays, **rest)
    else:
        found = equation.primitive.bind(*arrays, **bound)
    return list(found) if equation.primitive.multiple_results else [found]
