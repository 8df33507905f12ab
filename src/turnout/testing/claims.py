"""Claims that raise an AssertionError when they do not hold."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from turnout.types import PyTree


def require(holds: bool, claim: str) -> None:
    """Raise an AssertionError that says which claim does not hold, also under `python -O`."""
    if not holds:
        raise AssertionError(claim)


def require_close(actual: PyTree, expected: PyTree, claim: str, tolerance: float = 2e-5) -> None:
    """Two trees of the same shape must agree, relative to the larger of one and their size."""
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        gap = np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)), initial=0.0)
        require(bool(gap <= tolerance), f"{claim}: differs by {gap:.2g}")


def require_finite(values: PyTree, claim: str) -> None:
    """Every number in a tree must be finite."""
    for leaf in jax.tree.leaves(eqx.filter(values, eqx.is_inexact_array_like)):
        require(bool(jnp.all(jnp.isfinite(leaf))), claim)


def require_same_form(actual: PyTree, expected: PyTree, claim: str) -> None:
    """Two trees must have the same structure, shapes and dtypes, or a compiled loop cannot carry them."""
    require(jax.tree.structure(actual) == jax.tree.structure(expected), f"{claim}: the structure changes")
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, b = jnp.asarray(a), jnp.asarray(b)
        require(a.shape == b.shape and a.dtype == b.dtype, f"{claim}: {b.dtype}{b.shape} becomes {a.dtype}{a.shape}")
