"""A state as arrays by their path, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.flower.wire.layout import Arrays


def named(state: Any) -> Arrays:
    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}


def filled(state: Any, leaves: Mapping[str, np.ndarray]) -> Any:
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
