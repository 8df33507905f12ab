"""The first true entries of a mask, by index: how asked clients find their slots."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

Entries = Bool[Array, " entries"]
Indices = Int[Array, " slots"]


def first_indices(mask: Entries, count: int) -> Indices:
    """Indices of the first `count` true entries, in order, padded with the length of the mask.

    Like `nonzero` with a size. A few out of many are looked up, many are dealt out. For a thousand of a million looking
    up is ten times faster, for half of a thousand forty times slower.
    """
    return _look_up(mask, count) if count * 64 < mask.shape[0] else _deal_out(mask, count)


def _look_up(mask: Entries, count: int) -> Indices:
    """Find the block of every rank, then its position in the block."""
    blocks = _in_blocks(mask, 64)
    totals = jnp.cumsum(jnp.sum(blocks, axis=1, dtype=jnp.int32))
    rank = jnp.arange(count, dtype=jnp.int32)
    block = jnp.searchsorted(totals, rank, side="right").astype(jnp.int32)
    block = jnp.minimum(block, totals.shape[0] - 1)
    before = jnp.where(block > 0, totals[block - 1], 0)
    inside = jnp.cumsum(blocks[block], axis=1, dtype=jnp.int32) <= (rank - before)[:, None]
    index = block * blocks.shape[1] + jnp.sum(inside, axis=1, dtype=jnp.int32)
    return jnp.where(rank < totals[-1], index, mask.shape[0])


def _deal_out(mask: Entries, count: int) -> Indices:
    """Number the true entries, in blocks since one long running sum is slow, and scatter each to its number."""
    length = mask.shape[0]
    inside = jnp.cumsum(_in_blocks(mask, 8), axis=1, dtype=jnp.int32)
    totals = inside[:, -1]
    before = jnp.cumsum(totals) - totals
    rank = (inside + before[:, None]).reshape(-1)[:length] - 1
    empty = jnp.full(count, length, jnp.int32)
    return empty.at[jnp.where(mask, rank, count)].set(jnp.arange(length, dtype=jnp.int32), mode="drop")


def _in_blocks(mask: Entries, width: int) -> Bool[Array, "blocks width"]:
    return jnp.pad(mask, (0, -mask.shape[0] % width)).reshape(-1, width)
