"""A state as arrays by their path, and such arrays with a line of JSON in one npz file, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BufferedIOBase
from typing import Any

import jax
import jax.numpy as jnp
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


def named_leaves(state: Any) -> Arrays:
    """The arrays of a state by their path."""
    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}


def with_leaves(state: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    """The state with these arrays in it; a ValueError names one that does not fit."""
    paths, form = jax.tree_util.tree_flatten_with_path(state)
    if len(paths) != len(leaves):
        raise ValueError(f"it holds {len(leaves)} arrays of state, but this strategy and server have {len(paths)}")
    arrays = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path)
        if name not in leaves or leaves[name].shape != leaf.shape or leaves[name].dtype != leaf.dtype:
            held = f"{leaves[name].dtype}{leaves[name].shape}" if name in leaves else "nothing"
            raise ValueError(f"state{name} is {leaf.dtype}{leaf.shape}, but it holds {held}")
        arrays.append(jnp.array(leaves[name], copy=True))  # a buffer of its own, which may be donated
    return jax.tree_util.tree_unflatten(form, arrays)
