"""Results as plain dicts, lists and numbers, for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, get_args, get_type_hints

import numpy as np

VERDICTS = ("found", "separated", "alike")  # properties that are written beside the fields, where they are yes or no


def plain(value: Any, clients: bool = True) -> Any:
    """Convert records to dicts, arrays to lists, and what is not finite to None.

    Without `clients`, fields of records that have one entry per client are left out.
    """
    inner = partial(plain, clients=clients)
    if is_dataclass(value) and not isinstance(value, type):
        left_out = frozenset() if clients else per_client_fields(type(value))
        record = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in left_out}
        verdicts = {name: getattr(value, name, None) for name in VERDICTS}
        return inner(record | {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, bool)})
    if isinstance(value, Mapping):
        return {name: inner(element) for name, element in value.items()}
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


@cache
def per_client_fields(record: type) -> frozenset[str]:
    """The fields that are declared as arrays with one entry per client, such as `Float[np.ndarray, " clients"]`."""
    hints = get_type_hints(record)
    return frozenset(name for name, hint in hints.items() if any(map(_is_per_client, (hint, *get_args(hint)))))


def _is_per_client(hint: Any) -> bool:
    return getattr(hint, "dim_str", "").split() == ["clients"]


def _list(values: np.ndarray) -> list[Any]:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        values = values.astype(object)
        values[~np.isfinite(values.astype(float))] = None
    return values.tolist()
