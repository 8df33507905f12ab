"""Algebra on pytrees of arrays: a model, or one model per slot."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout import types
from turnout.types import Params, PerSlot, Scalar, SlotMask


def add(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.add, a, b)


def subtract(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.subtract, a, b)


def scale(a: Params, factor: Scalar) -> Params:
    return jax.tree.map(lambda leaf: leaf * jnp.asarray(factor, leaf.dtype), a)


def scale_rows(rows: Params, factors: PerSlot) -> Params:
    """Each row along the leading axis times its factor."""
    return jax.tree.map(lambda leaf: leaf * factors.reshape((-1,) + (1,) * (leaf.ndim - 1)).astype(leaf.dtype), rows)


def per_unit(a: Params, unit: Scalar) -> Params:
    """A tree per unit, for example of learning rate; zero if that is."""
    return scale(a, types.divide(jnp.ones(()), jnp.asarray(unit, jnp.float32)))


def rows_per_unit(rows: Params, units: PerSlot) -> Params:
    """Each row per unit of its own; zero if that is."""
    return scale_rows(rows, types.divide(jnp.ones_like(units), units))


def zeros_like(a: Params) -> Params:
    return jax.tree.map(jnp.zeros_like, a)


def where(condition: Bool[Array, ""], yes: Params, no: Params) -> Params:
    """One tree or the other, as a whole."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def where_rows(mask: SlotMask, yes: Params, no: Params) -> Params:
    """One tree or the other, row by row."""
    return jax.tree.map(lambda a, b: types.where_rows(mask, a, b), yes, no)


def weighted_sum(rows: Params, weights: PerSlot) -> Params:
    """Sum of the rows along the leading axis, each times its weight."""
    return jax.tree.map(lambda leaf: jnp.tensordot(weights.astype(leaf.dtype), leaf, axes=1), rows)


def repeat(a: Params, count: int) -> Params:
    """The same tree in each of `count` rows."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), a)


def norm(a: Params) -> Float[Array, ""]:
    """Euclidean norm of the whole tree."""
    return jnp.sqrt(sum((jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(a)), jnp.zeros(())))


def project(a: Params, radius: Scalar) -> Params:
    """The nearest tree whose Euclidean norm is at most `radius`."""
    length = norm(a)
    within = length <= jnp.asarray(radius, length.dtype)
    return scale(a, jnp.where(within, 1.0, types.divide(jnp.asarray(radius, length.dtype), length)))


def row_norms(rows: Params) -> PerSlot:
    """Euclidean norm of each row."""
    return jax.vmap(norm)(rows)
