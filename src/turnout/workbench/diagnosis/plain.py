"""Results as plain dicts, lists and numbers, for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np


def plain(value: Any, without_length: int | None = None) -> Any:
    """Convert records to dicts, with their boolean properties, arrays to lists, and what is not finite to None.

    Arrays of `without_length` entries are left out of records. With the number of clients these are the per-client
    ones.
    """
    inner = partial(plain, without_length=without_length)
    if is_dataclass(value) and not isinstance(value, type):
        verdicts = {name: getattr(value, name) for name in ("found", "separated", "alike") if hasattr(value, name)}
        record = {field.name: getattr(value, field.name) for field in fields(value)}
        return inner(record | {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, bool)})
    if isinstance(value, Mapping):
        return {name: inner(element) for name, element in value.items() if not _long(element, without_length)}
    if isinstance(value, list | tuple):
        if {int, float}.issuperset(map(type, value)):
            return [element if math.isfinite(element) else None for element in value]
        return [inner(element) for element in value]
    if isinstance(value, np.ndarray):
        return _list(value)
    if isinstance(value, np.generic):
        return inner(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _long(value: Any, length: int | None) -> bool:
    return length is not None and isinstance(value, np.ndarray | list | tuple) and len(value) == length


def _list(values: np.ndarray) -> list[Any]:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        values = values.astype(object)
        values[~np.isfinite(values.astype(float))] = None
    return values.tolist()
