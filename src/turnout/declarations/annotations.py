"""Which kinds of values an annotation allows."""

from __future__ import annotations

import collections.abc
import types
import typing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import numpy as np

from turnout.declarations.kinds import DeviceArray, DictOf, Instance, Kind, ListOf, Number, NumberArray, OneOf
from turnout.declarations.numbers import Numbers

_WORDS: dict[Any, str] = {bool: "true or false", str: "text", Path: "a path", collections.abc.Callable: "a function"}


def kinds_of(hint: Any, numbers: Numbers | None = None) -> tuple[Kind, ...]:
    """What an annotation allows, the members of a union one by one; nothing where it allows anything."""
    if typing.get_origin(hint) is Annotated:
        hint, *more = typing.get_args(hint)
        return kinds_of(hint, next((one for one in more if isinstance(one, Numbers)), numbers))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return _kinds_of_union(typing.get_args(hint), numbers)
    kind = _kind_of(hint, numbers or Numbers())
    return () if kind is None else (kind,)


def _kinds_of_union(members: tuple[Any, ...], numbers: Numbers | None) -> tuple[Kind, ...]:
    """The kinds of all members; a number, perhaps traced, is one of them."""
    plain = [member for member in members if member in (int, float) or _is_scalar(member)]
    others = [kinds_of(member, numbers) for member in members if member not in plain]
    if not all(others):
        return ()  # anything
    kinds = [kind for each in others for kind in each]
    if plain:
        limits = numbers or Numbers()
        whole = limits.whole or float not in plain
        kinds.insert(0, Number(replace(limits, whole=whole), traced=any(map(_is_scalar, plain))))
    return tuple(kinds)


def _kind_of(hint: Any, numbers: Numbers) -> Kind | None:
    """The one kind of an annotation that is no union; None where it allows anything, or cannot be checked."""
    origin = typing.get_origin(hint) or hint
    if hint in (int, float) or _is_scalar(hint):
        whole = numbers.whole or hint is int
        return Number(replace(numbers, whole=whole), traced=_is_scalar(hint))
    if origin is Literal:
        return OneOf(typing.get_args(hint))
    if hasattr(hint, "dim_str"):
        return DeviceArray(hint, numbers) if issubclass(hint.array_type, jax.Array) else NumberArray(numbers)
    if hint in (None, types.NoneType):
        return Instance(types.NoneType, "")
    if origin in (np.ndarray, jax.Array):
        return NumberArray(numbers)
    if not isinstance(origin, type) or origin in (Any, object):
        return None
    if getattr(origin, "_is_protocol", False) and not getattr(origin, "_is_runtime_protocol", False):
        return None
    if issubclass(origin, collections.abc.Mapping):
        keys, values = (kinds_of(inner, numbers) for inner in typing.get_args(hint) or (Any, Any))
        return DictOf(keys, values)
    if hasattr(origin, "_fields") or not issubclass(origin, collections.abc.Sequence) or origin in (str, bytes):
        return Instance(origin, _WORDS.get(origin) or _describe(origin))
    inside = [kinds_of(inner, numbers) for inner in typing.get_args(hint) if inner is not Ellipsis]
    is_fixed = origin is tuple and Ellipsis not in typing.get_args(hint)
    return ListOf(inside[0] if inside else (), origin is tuple, len(inside) if is_fixed else None)


def _describe(owner: type) -> str:
    """A class in words; `example` is an attribute of the classes that are easily mistaken."""
    name, example = owner.__name__, getattr(owner, "example", None)
    such_as = f", such as {example}" if isinstance(example, str) else ""
    return f"a{'n' if name[0] in 'AEIOU' else ''} {name}{such_as}"


def _is_scalar(hint: Any) -> bool:
    """Whether this is an array without axes."""
    return getattr(hint, "dim_str", None) == ""
