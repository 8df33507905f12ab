"""How builders read their arguments: one value for all or one each, refused with the offender named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

SHOWN = 3  # offenders named in a message before the rest are only counted


def refuse(bad: np.ndarray, describe: Callable[[int], str], rule: str) -> None:
    """Raise a ValueError that names the first offenders and says what would be right, if there is any offender."""
    (where,) = np.nonzero(bad)
    if where.size == 0:
        return
    shown = ", ".join(describe(int(k)) for k in where[:SHOWN])
    more = f" and {where.size - SHOWN} more" if where.size > SHOWN else ""
    raise ValueError(f"{shown}{more}: {rule}")


def at_least(name: str, value: int, lowest: int) -> int:
    """The value as an int, refused when it is not whole or too small."""
    if isinstance(value, bool) or int(value) != value or value < lowest:
        raise ValueError(f"{name} = {value}: must be a whole number of at least {lowest}")
    return int(value)


def spread(name: str, value: float | int | Sequence[float | int], count: int, of: str = "client") -> np.ndarray:
    """One float64 value each: a single number is given to all, a sequence must have the right length."""
    values = np.asarray(value, dtype=np.float64)
    if values.ndim == 0:
        return np.full(count, float(values))
    if values.shape != (count,):
        got = f"{values.shape[0]} values" if values.ndim == 1 else f"shape {values.shape}"
        raise ValueError(f"{name} has {got} for {count} {of}s: give one number, or one for each {of}")
    return values


def spread_whole(name: str, value: int | Sequence[int], count: int, lowest: int, of: str = "client") -> np.ndarray:
    """As `spread`, for whole numbers of at least `lowest`."""
    values = spread(name, value, count, of)
    bad = ~((values >= lowest) & (values == np.floor(values)) & np.isfinite(values))
    refuse(bad, lambda k: f"{of} {k} has {name} = {values[k]:g}", f"must be a whole number of at least {lowest}")
    return values.astype(np.int32)


def spread_share(name: str, value: float | Sequence[float], count: int, of: str = "client") -> np.ndarray:
    """As `spread`, for probabilities."""
    values = spread(name, value, count, of)
    refuse(~((values >= 0) & (values <= 1)), lambda k: f"{of} {k} has {name} = {values[k]:g}", "must lie in [0, 1]")
    return values


def membership(name: str, groups: int | Sequence[int], num_clients: int) -> np.ndarray:
    """Group of each client: a number cuts the fleet into that many equal runs of clients, a sequence is taken as it is.

    Equal means that sizes differ by one at most. Groups are numbered from 0 and none may be empty.
    """
    if isinstance(groups, int):
        count = at_least(name, groups, 1)
        if count > num_clients:
            raise ValueError(
                f"{name} = {count} for {num_clients} clients: some would be empty, give at most {num_clients}"
            )
        return (np.arange(num_clients) * count // num_clients).astype(np.int32)
    group = spread_whole(name, groups, num_clients, lowest=0)
    empty = np.setdiff1d(np.arange(group.max() + 1), group)
    if empty.size:
        raise ValueError(
            f"{name}: no client is in number {empty[0]}, though {group.max()} is used: number from 0 without gaps"
        )
    return group
