"""Models with other forms of their convolutions and poolings, and what is said where there is none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax

from turnout.tasks.models.rewriting import convolutions, poolings
from turnout.tasks.models.rewriting.programs import CONVOLUTION, WANTED, Equation, Program, equations, has_wanted
from turnout.tasks.models.rewriting.walk import run

PAGE = "docs/own_models.md"
_said = set[str]()

Function = Callable[..., Any]


def rewritten(function: Function) -> Function:
    """The function of arrays with its convolutions and poolings in other forms.

    A function without any is called as it is. So is one that cannot be rewritten, which is said once.
    """

    def faster(*arguments: Any) -> Any:
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not has_wanted(traced):
            return function(*arguments)
        for reason in reasons(traced):
            say_once(f"{reason}; it stays as it was, which is slow in simulated rounds: see {PAGE}")
        try:
            results = run(traced, jax.tree.leaves(arguments))
        except Exception as error:  # a model that runs as written must never fail for being rewritten
            say_once(
                f"the model could not be rewritten and runs as it was ({type(error).__name__}: {error}); "
                f"rewrite=False says that this is meant: see {PAGE}"
            )
            return function(*arguments)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return faster


def patch_numbers(function: Function, *arguments: Any) -> int:
    """Numbers in the largest matrix of patches, 1 if there are only poolings, and 0 without both.

    Arguments may be shapes.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    return max((_numbers(equation) for equation in equations(traced) if equation.primitive.name in WANTED), default=0)


def _numbers(equation: Equation) -> int:
    if equation.primitive.name != CONVOLUTION:
        return 1
    (images, kernel), axes = (atom.aval for atom in equation.invars), equation.params["dimension_numbers"]
    outputs = equation.outvars[0].aval.size // kernel.shape[axes.rhs_spec[0]]
    places = math.prod(kernel.shape[axis] for axis in axes.rhs_spec[2:])
    return max(1, outputs * places * images.shape[axes.lhs_spec[1]])


def reasons(program: Program) -> Iterator[str]:
    """Why convolutions and poolings stay as they are, each reason once."""
    found = dict.fromkeys(_why_not(equation) for equation in equations(program))
    yield from (reason for reason in found if reason is not None)


def _why_not(equation: Equation) -> str | None:
    name = equation.primitive.name
    if name not in WANTED:
        return None
    kinds = [atom.aval for atom in equation.invars]
    if name == CONVOLUTION:
        reason = convolutions.why_not(equation.params, *kinds)
        return None if reason is None else f"a convolution of the model has no fast form, since {reason}"
    reason = poolings.why_not(equation.params, kinds[0])
    return None if reason is None else f"a pooling of the model has no fast form, since {reason}"


def say_once(message: str) -> None:
    """Warn, unless this has been said."""
    if message not in _said:
        _said.add(message)
        warnings.warn(message, stacklevel=2)
