"""Kinds of values: each reads a value as it should be, or says in words what would be right."""

from __future__ import annotations

import collections.abc
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from turnout.declarations.numbers import Numbers


def read(name: str, value: Any, kinds: tuple[Kind, ...]) -> Any:
    """The value as one of the kinds has it; a TypeError or a ValueError that says what would be right."""
    try:
        return _read(value, kinds)
    except MisfitError as misfit:
        message = f"{name}{misfit.place} must be {misfit.words}, not {_excerpt(misfit.value)}"
        raise (ValueError if misfit.has_kind else TypeError)(message) from None


class MisfitError(Exception):
    """A value that is not of a kind, or is of that kind and yet not allowed."""

    def __init__(self, value: Any, words: str, has_kind: bool = False, place: str = "") -> None:
        super().__init__(words)
        self.value, self.words, self.has_kind, self.place = value, words, has_kind, place


def _read(value: Any, kinds: tuple[Kind, ...]) -> Any:
    if not kinds:
        return value
    misfits: list[MisfitError] = []
    for kind in kinds:
        try:
            return kind.read(value)
        except MisfitError as misfit:
            misfits.append(misfit)
    deepest = max(misfits, key=lambda misfit: len(misfit.place))
    if deepest.place:
        raise deepest
    words = " or ".join(dict.fromkeys(str(kind) for kind in kinds if str(kind)))
    raise MisfitError(value, words, any(misfit.has_kind for misfit in misfits))


class Kind:
    """What a value may be: reads it as it should be, or raises a `MisfitError`; in words, it is what would be right."""

    def read(self, value: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Kind):
    numbers: Numbers
    traced: bool  # arrays stay arrays

    def __str__(self) -> str:
        return str(self.numbers)

    def read(self, value: Any) -> Any:
        if self.traced and isinstance(value, Tracer):
            return value
        plain = isinstance(value, int | float | np.number | np.ndarray | jax.Array) and not _is_key(value)
        if not plain or isinstance(value, bool) or np.ndim(value) or np.asarray(value).dtype.kind not in "iuf":
            raise MisfitError(value, str(self))
        number = np.asarray(value).item()
        is_whole = isinstance(number, int)
        if (self.numbers.whole and not is_whole) or not self.numbers.hold(np.array([number], np.float64))[0]:
            raise MisfitError(value, str(self), has_kind=True)
        return value if self.traced and isinstance(value, jax.Array) else number


@dataclass(frozen=True)
class DeviceArray(Kind):
    """An array of the device; lists and numpy's arrays become one."""

    hint: Any
    numbers: Numbers

    def __str__(self) -> str:
        what = {"i": "whole numbers", "f": "numbers", "b": "truth values"}[self._wanted]
        shape = f" of shape ({', '.join(self.hint.dim_str.split())})"
        return f"an array of {what}{shape}" + (f", each {self.numbers}" if self.numbers != Numbers() else "")

    @property
    def _wanted(self) -> str:
        names = {str(name).rstrip("0123456789") for name in self.hint.dtypes}
        return "f" if "float" in names else "b" if "bool" in names else "i"

    def read(self, value: Any) -> Any:
        if isinstance(value, Tracer | jax.ShapeDtypeStruct):
            return value
        if isinstance(value, np.ndarray | list | tuple):
            array = as_array(value)
            allowed = {"f": "iuf", "i": "iu", "b": "b"}[self._wanted]
            if array is None or array.dtype.kind not in allowed or not _fits_device(array):
                raise MisfitError(value, str(self))
            value = jnp.asarray(array, jnp.float32 if self._wanted == "f" else None)
        if not isinstance(value, self.hint):
            raise MisfitError(value, str(self))
        if self._wanted == "f" or self.numbers != Numbers():
            plain = np.asarray(value, np.float64).ravel()
            for k in np.flatnonzero(~self.numbers.hold(plain))[:1]:
                raise MisfitError(plain[k].item(), str(self.numbers), has_kind=True, place=f"[{k}]")
        return value


@dataclass(frozen=True)
class NumberArray(Kind):
    """Numbers in any shape, as an array of numpy or of the device."""

    numbers: Numbers

    def __str__(self) -> str:
        return "an array of numbers"

    def read(self, value: Any) -> Any:
        if isinstance(value, Tracer):
            return value
        is_list = isinstance(value, collections.abc.Sequence) and not isinstance(value, str | bytes)
        array = as_array(value) if is_list or isinstance(value, np.ndarray | jax.Array) else None
        if array is None or array.ndim == 0:
            raise MisfitError(value, str(self))
        held = ~np.isnan(array) if self.numbers == Numbers() else self.numbers.hold(array.astype(np.float64))
        if not held.all():
            raise MisfitError(array[~held][0].item(), f"{self}, each {self.numbers}", has_kind=True)
        return array if is_list else value


@dataclass(frozen=True)
class ListOf(Kind):
    elements: tuple[Kind, ...]
    as_tuple: bool
    length: int | None = None  # any, if not given

    def __str__(self) -> str:
        what = "a list" if self.length is None else f"a list of {self.length}"
        return f"{what}, each {' or '.join(dict.fromkeys(map(str, self.elements))) or 'anything'}"

    def read(self, value: Any) -> Any:
        is_array = isinstance(value, np.ndarray | jax.Array) and not _is_key(value) and np.ndim(value) > 0
        if not is_array and (not isinstance(value, collections.abc.Sequence) or isinstance(value, str | bytes)):
            raise MisfitError(value, str(self))
        if self.length not in (None, len(value)):
            raise MisfitError(value, str(self))
        if is_array and np.asarray(value).dtype.kind == "U":
            return self.read(np.asarray(value).tolist())  # texts of Python, as messages show them
        whole = as_array(value)
        if whole is not None and whole.ndim == 1 and self._all_allowed(whole):
            return tuple(whole.tolist()) if self.as_tuple else whole if isinstance(value, jax.Array) else value
        items: list[Any] = []
        for k, item in enumerate(np.asarray(value) if is_array else value):
            try:
                items.append(_read(item, self.elements))
            except MisfitError as misfit:
                raise MisfitError(misfit.value, misfit.words, misfit.has_kind, f"[{k}]{misfit.place}") from None
        return np.asarray(value) if is_array else tuple(items) if self.as_tuple else items

    def _all_allowed(self, array: np.ndarray) -> bool:
        """Whether these are numbers, and all of them allowed: at once, since fleets are large."""
        kind = self.elements[0] if len(self.elements) == 1 else None
        if not isinstance(kind, Number) or array.dtype.kind not in "iuf":
            return False
        fits = array.dtype.kind != "f" or not kind.numbers.whole
        return fits and bool(kind.numbers.hold(array.astype(np.float64)).all())


@dataclass(frozen=True)
class DictOf(Kind):
    keys: tuple[Kind, ...]
    values: tuple[Kind, ...]

    def __str__(self) -> str:
        return f"a dict, each value {' or '.join(map(str, self.values)) or 'anything'}"

    def read(self, value: Any) -> Any:
        if not isinstance(value, collections.abc.Mapping):
            raise MisfitError(value, str(self))
        for key, item in value.items():
            for part, kinds in ((key, self.keys), (item, self.values)):
                try:
                    _read(part, kinds)
                except MisfitError as misfit:
                    raise MisfitError(misfit.value, misfit.words, misfit.has_kind, f"[{key!r}]{misfit.place}") from None
        return value


@dataclass(frozen=True)
class OneOf(Kind):
    options: tuple[Any, ...]

    def __str__(self) -> str:
        return " or ".join(map(repr, self.options))

    def read(self, value: Any) -> Any:
        plain = value.item() if isinstance(value, np.generic) else value
        for option in self.options:
            if type(plain) is type(option) and plain == option:
                return option
        raise MisfitError(value, str(self), has_kind=type(plain) in map(type, self.options))


@dataclass(frozen=True)
class Instance(Kind):
    """Objects of a class; a class itself is easily given instead."""

    kind: type | tuple[type, ...]
    words: str

    def __str__(self) -> str:
        return self.words

    def read(self, value: Any) -> Any:
        if self.kind is bool and isinstance(value, np.bool_):
            return bool(value)
        fits = callable(value) if self.kind is collections.abc.Callable else isinstance(value, self.kind)
        if not fits or isinstance(value, type):
            raise MisfitError(value, self.words)
        return value


def axes(value: Any, kinds: tuple[Kind, ...]) -> list[tuple[str, int]]:
    """The named axes of an array of a field, with their sizes."""
    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return []
    hints = [kind.hint.dim_str.split() for kind in kinds if isinstance(kind, DeviceArray)]
    names = next((names for names in hints if len(names) == value.ndim), [])
    return [(name, size) for name, size in zip(names, value.shape, strict=True) if name.isidentifier()] if names else []


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def as_array(value: Any) -> np.ndarray | None:
    """The numbers as one array of numpy; None where some are truth values among numbers, or no numbers at all."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    mixed = array.dtype.kind in "iuf" and isinstance(value, list | tuple) and bool in set(map(type, value))
    return None if mixed or array.dtype.kind not in "iufb" else array


def _fits_device(array: np.ndarray) -> bool:
    """Whether whole numbers are not too large for the device, which would cut them."""
    return array.dtype.kind not in "iu" or bool(((array >= -(2**31)) & (array < 2**31)).all())


def _excerpt(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__}: call it, {value.__name__}()"
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not _is_key(value):
        text = repr(np.asarray(value).item()) if np.ndim(value) == 0 else f"an array of shape {np.shape(value)}"
    else:
        text = repr(value) if isinstance(value, str | int | float | None | list | tuple | dict) else ""
    words = " ".join(text.split()) or f"an object of {type(value).__name__}"
    return words if len(words) <= 60 else f"{words[:57]}…"
