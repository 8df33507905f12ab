"""A builder's signature is the schema of its table: which keys there are, of what type, and which must be given."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from turnout.errors import nearest
from turnout.workbench.experiment.errors import ExperimentError, check_keys
from turnout.workbench.experiment.toml import write_value

REQUIRED = inspect.Parameter.empty
LARGEST_WHOLE = 2**31  # on the device
SWEEP = "sweep"  # `pi = { sweep = [0.1, 0.5] }`, for an argument to which a list is also a value


@dataclass(frozen=True)
class Parameter:
    """One argument of a builder."""

    name: str
    hint: Any
    default: Any

    @property
    def default_in_toml(self) -> bool:
        """Whether TOML can hold the default; it has no null."""
        values = self.default if isinstance(self.default, tuple) else (self.default,)
        return all(isinstance(value, bool | int | float | str) for value in values)


@functools.cache
def parameters(builder: Callable[..., Any]) -> dict[str, Parameter]:
    """The arguments that a builder takes by name."""
    hints = _hints(builder)
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name: Parameter(name, hints.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(builder).parameters.items()
        if parameter.kind in by_name
    }


def _hints(builder: Callable[..., Any]) -> dict[str, Any]:
    """Annotations as objects; those of a third party that cannot be evaluated are left out."""
    sources = [builder, builder.__init__] if inspect.isclass(builder) else [builder]
    hints: dict[str, Any] = {}
    for source in sources:
        with contextlib.suppress(NameError, TypeError, AttributeError):
            hints = typing.get_type_hints(source) | hints
    return hints


def sweep_values(parameter: Parameter, value: Any) -> list[Any] | None:
    """The values of a sweep, or None for a plain value: a list is a sweep where the argument does not take a list."""
    if isinstance(value, dict) and set(value) == {SWEEP} and isinstance(value[SWEEP], list):
        return value[SWEEP]
    if isinstance(value, list) and not accepts(parameter.hint, value):
        return value
    return None


def read(parameter: Parameter, value: Any, where: str) -> Any:
    """The value as the builder wants it, a sweep as a list of such values, or an error that says what is expected."""
    values = sweep_values(parameter, value)
    if values is None:
        return read_one(parameter, value, where)
    if not values:
        raise ExperimentError(f"{where}: given an empty list, expected {describe(parameter.hint)}")
    expect(any(accepts(parameter.hint, item) for item in values), value, where, describe(parameter.hint))
    values = [read_one(parameter, item, f"{where}[{i}]") for i, item in enumerate(values)]
    if any(isinstance(item, float) for item in values):  # of one type, or they would not run as one program
        values = [float(item) if is_whole(item) else item for item in values]
    return {SWEEP: values} if isinstance(value, dict) else values


def read_one(parameter: Parameter, value: Any, where: str) -> Any:
    """A single value as the builder wants it."""
    expect(accepts(parameter.hint, value), value, where, describe(parameter.hint))
    if isinstance(parameter.default, float) and is_whole(value):
        return float(value)
    value = _as_hinted(parameter.hint, value)
    fits = not is_whole(value) or -LARGEST_WHOLE <= value < LARGEST_WHOLE or parameter.name == "seed"
    expect(fits, value, where, "a whole number below 2³¹")
    return value


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def accepts(hint: Any, value: Any) -> bool:
    """Whether a value from a TOML file fits an annotation; no number does that is not one, or too large for 64 bits."""
    if isinstance(value, float | int) and (value != value or (is_whole(value) and abs(value) >= 2**63)):
        return False
    return any(_accepts_member(member, value) for member in _members(hint))


def takes(hint: Any, kind: type) -> bool:
    """Whether an annotation names a class or one derived from it, perhaps among others or in a sequence."""
    members = [inner for member in _members(hint) for inner in (member, *_members(_element(member)))]
    origins = (typing.get_origin(member) or member for member in members)
    return any(inspect.isclass(origin) and issubclass(origin, kind) for origin in origins)


def _accepts_member(hint: Any, value: Any) -> bool:
    if hint is Any or isinstance(hint, typing.TypeVar):
        return True
    if typing.get_origin(hint) is typing.Literal:
        return any(value == option and type(value) is type(option) for option in typing.get_args(hint))
    if isinstance(value, bool):
        return hint is bool
    if isinstance(value, int | float):
        return hint is float or (hint is int and is_whole(value)) or _is_scalar_array(hint)
    if isinstance(value, str):
        return hint in (str, Path)
    if isinstance(value, list):
        inner = _element(hint)
        return inner is not None and all(accepts(inner, item) for item in value)
    return isinstance(value, dict) and (is_unnamed(hint) if "name" not in value else _is_object(hint))


def is_unnamed(hint: Any) -> bool:
    """Whether an annotation is a class whose fields a table gives without a name."""
    return getattr(hint, "unnamed", False) is True


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _element(hint: Any) -> Any | None:
    """What the elements of a sequence must be; None where the annotation is no sequence."""
    origin = typing.get_origin(hint) or hint
    if not (inspect.isclass(origin) and issubclass(origin, collections.abc.Sequence)) or origin in (str, bytes):
        return None
    if hasattr(origin, "_fields"):  # a named tuple, such as an optax optimizer, is a single value
        return None
    inside = [inner for inner in typing.get_args(hint) if inner is not Ellipsis]
    return functools.reduce(lambda a, b: a | b, inside) if inside else Any


def _is_scalar_array(hint: Any) -> bool:
    """A jaxtyping array with no axes; optax writes a bare array for a number."""
    return getattr(hint, "dim_str", None) == "" or hint in (jax.Array, np.ndarray)


def _is_array(hint: Any) -> bool:
    return hasattr(hint, "dim_str") or hint in (jax.Array, np.ndarray)


def _is_object(hint: Any) -> bool:
    """Whether the annotation is an object that is built by name: an optimizer, a schedule, a model."""
    plain = (bool, int, float, complex, str, Path, types.NoneType)
    return hint not in plain and not _is_array(hint) and typing.get_origin(hint) is not typing.Literal


def _as_hinted(hint: Any, value: Any) -> Any:
    """Whole numbers as floats where only floats are due."""
    fitting = [member for member in _members(hint) if _accepts_member(member, value)]
    if isinstance(value, list):
        inner = next((_element(member) for member in fitting if member is not Any), Any)
        return [_as_hinted(inner, item) for item in value]
    return float(value) if is_whole(value) and float in fitting and not {int, Any} & set(fitting) else value


def as_argument(hint: Any, value: Any) -> Any:
    """A list as a tuple where one is due, so that it can be hashed."""
    wants_tuple = any(typing.get_origin(member) is tuple for member in _members(hint))
    return tuple(value) if wants_tuple and isinstance(value, list) else value


def describe(hint: Any) -> str:
    """An annotation in words."""
    members = _members(hint)
    if float in members:  # a number covers them
        members = tuple(member for member in members if member not in (int, bool))
    return " or ".join(dict.fromkeys(filter(None, map(_describe_member, members)))) or "nothing"


def _describe_member(hint: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "text"}
    if hint is Any:
        return "anything"
    if hint in names:
        return names[hint]
    if hint is types.NoneType or hint is complex:
        return ""
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(excerpt(option) for option in typing.get_args(hint))
    if (inner := _element(hint)) is not None:
        return f"a list, each {describe(inner)}"
    if _is_array(hint) or getattr(hint, "__module__", "") == "numpy":
        return ""
    if is_unnamed(hint):
        return f"a table with some of {', '.join(parameters(hint))}"
    return 'a table { name = "…" }'


def expect(is_right: bool, value: Any, where: str, expected: str) -> None:
    """Refuse a value that is not right, and say what is expected."""
    if not is_right:
        raise ExperimentError(f"{where}: given {excerpt(value)}, expected {expected}")


def excerpt(value: Any) -> str:
    """A value as the TOML file has it, cut short."""
    text = write_value(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def function_and_arguments(
    functions: Mapping[str, Callable[..., Any]], table: Any, where: str, given_by_us: tuple[str, ...]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that a table names, and its arguments, the other keys; `given_by_us` may not be keys."""
    is_named = isinstance(table, dict) and isinstance(table.get("name"), str)
    expect(is_named, table, where, "a table with a name")
    name = table["name"]
    if name not in functions:
        raise ExperimentError(f"{where}: there is no {name!r}: {nearest(name, functions)}")
    function, arguments = functions[name], {key: value for key, value in table.items() if key != "name"}
    known = parameters(function)
    check_keys(arguments, [key for key in known if key not in given_by_us], where)
    for key, parameter in known.items():
        if key in arguments and not (isinstance(arguments[key], dict) and takes(parameter.hint, dict)):
            arguments[key] = read_one(parameter, arguments[key], f"{where}.{key}")
        if key not in arguments and key not in given_by_us and parameter.default is REQUIRED:
            raise ExperimentError(f"{where}: {key!r} is missing, expected {describe(parameter.hint)}")
    return function, arguments
