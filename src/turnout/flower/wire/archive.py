"""Arrays under any names and a line of JSON in one npz file, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BufferedIOBase
from typing import Any

import numpy as np

from turnout.flower.wire.layout import Arrays

_HEADER, _PATHS, _LEAF = "header", "paths", "leaf"


def write(file: BufferedIOBase, header: Mapping[str, Any], leaves: Arrays, others: Arrays | None = None) -> None:
    """Write the file: names of leaves may hold any character, so they are numbered inside; others have plain names."""
    numbered = {f"{_LEAF}{number}": leaf for number, leaf in enumerate(leaves.values())}
    lines = {_HEADER: _line(header), _PATHS: _line(list(leaves))}
    np.savez(file, allow_pickle=False, **lines, **numbered, **(others or {}))


def read(file: BufferedIOBase) -> tuple[dict[str, Any], Arrays, Arrays]:
    """Header, leaves and others, as they were written."""
    with np.load(file, allow_pickle=False) as held:
        header, paths = (json.loads(held[name].tobytes()) for name in (_HEADER, _PATHS))
        numbered = {f"{_LEAF}{number}": path for number, path in enumerate(paths)}
        others = {name: held[name] for name in held.files if name not in {_HEADER, _PATHS, *numbered}}
        return header, {path: held[name] for name, path in numbered.items()}, others


def _line(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)
