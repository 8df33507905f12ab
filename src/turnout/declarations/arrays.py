"""How arguments are read and checked: as float64, one value for all or one per client; errors name the offender."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np

from turnout.declarations import NotNegative, Numbers, Positive, hold

Values = Sequence[float | int] | np.ndarray

_ANY = Numbers(infinite=True)
_OneOrSeveral = Annotated[float | Sequence[float] | np.ndarray, _ANY]

MAX_NAMED = 3  # offenders in a message; the others are only counted


def refuse(bad: np.ndarray, describe: Callable[[int], str], rule: str) -> None:
    """If anything is bad, raise a ValueError that names the first offenders and says what would be right."""
    (where,) = np.nonzero(bad)
    if where.size == 0:
        return
    shown = ", ".join(describe(int(k)) for k in where[:MAX_NAMED])
    more = f" and {where.size - MAX_NAMED} more" if where.size > MAX_NAMED else ""
    raise ValueError(f"{shown}{more}: {rule}")


def at_least(name: str, value: int, lowest: int, highest: int | None = None) -> int:
    """The value as an int; an error if it is not whole, too small or too large."""
    return hold(name, value, Annotated[int, Numbers(lowest, math.inf if highest is None else highest)])


def spread(name: str, value: float | int | Sequence[float | int], count: int, of: str = "client") -> np.ndarray:
    """One float64 value per client: a single number is given to all, a sequence must have the right length."""
    values = np.asarray(hold(name, value, _OneOrSeveral), np.float64)
    if values.ndim == 0:
        return np.full(count, float(values))
    if values.shape != (count,):
        given = f"{values.shape[0]} values" if values.ndim == 1 else f"shape {values.shape}"
        raise ValueError(f"{name} has {given} for {count} {of}s: give one number, or one per {of}")
    return values


def spread_whole(name: str, value: int | Sequence[int], count: int, lowest: int, of: str = "client") -> np.ndarray:
    """Like `spread`, for whole numbers of at least `lowest`."""
    values = spread(name, value, count, of)
    bad = ~((values >= lowest) & (values == np.floor(values)) & (values < 2**31))
    rule = f"must be a whole number of at least {lowest}, and below 2³¹"
    refuse(bad, lambda k: f"{of} {k} has {name} = {values[k]:g}", rule)
    return values.astype(np.int32)


def spread_share(name: str, value: float | Sequence[float], count: int, of: str = "client") -> np.ndarray:
    """Like `spread`, for probabilities."""
    values = spread(name, value, count, of)
    refuse(~((values >= 0) & (values <= 1)), lambda k: f"{of} {k} has {name} = {values[k]:g}", "must lie in [0, 1]")
    return values


def membership(name: str, groups: int | Sequence[int], num_clients: int) -> np.ndarray:
    """Group of each client: a number cuts the fleet into that many equal groups in order, a sequence is used as it is.

    Equal means that sizes differ by one at most. Groups are numbered from 0 and none may be empty.
    """
    if isinstance(groups, int):
        count = at_least(name, groups, 1)
        if count > num_clients:
            raise ValueError(
                f"{name} = {count} for {num_clients} clients: some groups would be empty, give at most {num_clients}"
            )
        return (np.arange(num_clients) * count // num_clients).astype(np.int32)
    group = spread_whole(name, groups, num_clients, lowest=0)
    empty = np.setdiff1d(np.arange(group.max() + 1), group)
    if empty.size:
        raise ValueError(
            f"{name}: no client is in group {empty[0]}, but one is in {group.max()}: number from 0 without gaps"
        )
    return group


def vector(name: str, values: Values, count: int | None = None) -> np.ndarray:
    """One finite float64 number per client."""
    array = np.asarray(hold(name, values, Values), np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}: give a list of one number per client")
    if count is not None and array.size != count:
        raise ValueError(f"{name} has {array.size} values for {count} clients: give one per client")
    refuse(~np.isfinite(array), lambda k: f"client {k} has {name} = {array[k]}", "must be finite")
    return array


def nonnegative(name: str, values: Values, count: int | None = None) -> np.ndarray:
    array = vector(name, values, count)
    refuse(array < 0, lambda k: f"client {k} has {name} = {array[k]:g}", "must not be negative")
    return array


def positive(name: str, values: Values, count: int | None = None) -> np.ndarray:
    array = vector(name, values, count)
    refuse(array <= 0, lambda k: f"client {k} has {name} = {array[k]:g}", "must be positive")
    return array


def shares(name: str, values: Values, count: int | None = None) -> np.ndarray:
    """Probabilities, one per client."""
    array = vector(name, values, count)
    refuse(
        ~((array >= 0) & (array <= 1)), lambda k: f"client {k} has {name} = {array[k]:g}", "must lie between 0 and 1"
    )
    return array


def law(name: str, values: Values, count: int | None = None) -> np.ndarray:
    """Nonnegative weights, divided by their sum."""
    array = nonnegative(name, values, count)
    largest = array.max()
    if largest == 0:
        raise ValueError(f"{name}: all values are 0, at least one must be positive")
    array = array / largest  # so that the sum cannot overflow
    return array / array.sum()


def check_positive(**named: float | int) -> None:
    """Refuse constants that are not positive and finite."""
    for name, value in named.items():
        hold(name, value, Positive)


def check_nonnegative(**named: float | int) -> None:
    """Refuse constants that are negative or not finite."""
    for name, value in named.items():
        hold(name, value, NotNegative)


def check_step(name: str, step: float, largest: float, rule: str) -> None:
    """Refuse a step that a bound does not cover, and say which is the largest that it covers."""
    hold(name, step, Positive)
    if step > largest:
        raise ValueError(f"{name} = {step:g} is too large: {rule} allows at most {largest:.6g}")
