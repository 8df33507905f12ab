"""How the functions of this package read their arguments: as float64, refused with the offender named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnout.availability.arguments import refuse

Values = Sequence[float | int] | np.ndarray


def vector(name: str, values: Values, count: int | None = None) -> np.ndarray:
    """One finite float64 number for each client."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}: give a list of one number for each client")
    if count is not None and array.size != count:
        raise ValueError(f"{name} has {array.size} values for {count} clients: give one for each client")
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
    """Probabilities, one for each client."""
    array = vector(name, values, count)
    refuse(
        ~((array >= 0) & (array <= 1)), lambda k: f"client {k} has {name} = {array[k]:g}", "must lie between 0 and 1"
    )
    return array


def law(name: str, values: Values, count: int | None = None) -> np.ndarray:
    """Weights that are not negative, divided by their sum."""
    array = nonnegative(name, values, count)
    largest = array.max()
    if largest == 0:
        raise ValueError(f"{name}: all values are 0, at least one must be positive")
    array = array / largest  # so that the sum cannot overflow
    return array / array.sum()


def check_positive(**named: float | int) -> None:
    """Refuse constants that are not positive and finite."""
    for name, value in named.items():
        if not 0 < value < np.inf:
            raise ValueError(f"{name} = {value}: must be positive and finite")


def check_nonnegative(**named: float | int) -> None:
    """Refuse constants that are negative or not finite."""
    for name, value in named.items():
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} = {value}: must be finite and not negative")


def check_step(name: str, step: float, largest: float, rule: str) -> None:
    """Refuse a step that a bound does not cover, saying which is the largest that it does."""
    check_positive(**{name: step})
    if step > largest:
        raise ValueError(f"{name} = {step:g} is too large: {rule} allows at most {largest:.6g}")
