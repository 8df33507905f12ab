"""One check of arguments and of fields, by what their annotations declare."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

import equinox as eqx

from turnout.declarations.annotations import kinds_of
from turnout.declarations.kinds import Kind, axes, read

Args = ParamSpec("Args")
Result = TypeVar("Result")


def checked(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """The function, with its arguments held to their annotations before each call."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}: {error}") from None
        kinds = declared(function)
        for name, value in given.arguments.items():
            if name in kinds:
                given.arguments[name] = read(name, value, kinds[name])
        return function(*given.args, **given.kwargs)

    return call


def hold(name: str, value: Any, annotation: Any) -> Any:
    """The value as an annotation has it; a TypeError or a ValueError that says what would be right."""
    return read(name, value, kinds_of(annotation))


def check_fields(one: Any) -> None:
    """Hold every field of a dataclass or of a module to its annotation; plain numbers become Python's own."""
    kinds = declared(type(one))
    sizes: dict[str, tuple[int, str]] = {}  # of the axes by their names, each with the first field that has it
    for field in fields(one):
        if field.name in kinds:
            value = getattr(one, field.name)
            held = read(field.name, value, kinds[field.name])
            if held is not value:
                object.__setattr__(one, field.name, held)
            for axis, size in axes(held, kinds[field.name]):
                first, other = sizes.setdefault(axis, (size, field.name))
                if size != first:
                    raise ValueError(f"{field.name} has {size} {axis}, but {other} {first}: they must be as many")


class Declared(eqx.Module):
    """A module whose fields are held to their annotations whenever one is made, but not inside `jax.tree`."""

    def __check_init__(self) -> None:
        check_fields(self)


@functools.cache
def declared(owner: Callable[..., Any]) -> dict[str, tuple[Kind, ...]]:
    """The kinds of a class's fields or of a function's arguments, as far as its annotations can be read.

    One cannot if it names what only a type checker sees, or a class that is made inside a function.
    """
    hints: dict[str, Any] = {}
    for source in reversed(inspect.getmro(owner)) if isinstance(owner, type) else (owner,):
        names = vars(sys.modules[source.__module__]) if source.__module__ in sys.modules else {}
        for name, hint in inspect.get_annotations(source).items():
            try:
                hints[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
            except Exception:
                hints.pop(name, None)
    return {name: kinds for name, hint in hints.items() if (kinds := kinds_of(hint))}
