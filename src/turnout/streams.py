"""Random keys: folded from (seed, stream, round) and, for one client, its index; never chained, never from a slot.

So a result does not depend on slot positions, on capacity or on where a run was cut, and a run on real nodes can repeat
a simulation exactly. Nature has streams of its own: every strategy meets the same absences.
"""

from __future__ import annotations

import enum

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, UInt32

from turnout.types import RandomKey, Round

Bits = UInt32[Array, "..."]


class Stream(enum.IntEnum):
    """Who draws. Results repeat only if the values stay: append, never renumber."""

    MODEL = 0  # initial parameters
    WORLD_START = 1
    AVAILABILITY = 2
    LINKS = 3
    COMPUTE = 4
    SELECT = 5
    PROBE = 6
    TRAIN = 7
    ADMIT = 8
    PAST = 9  # availability before round 0, for a server that has watched
    UPLOAD = 10  # rounding and noise on the way to the server
    DURATIONS = 11  # how long work takes
    OPENINGS = 12  # which of the wanted clients are asked, where there are too few openings


def round_key(root: RandomKey, stream: Stream, t: Round = 0) -> RandomKey:
    """The key of one stream in one round."""
    # The round is folded in first: all streams of a round then share that fold, which the compiler does once.
    return jr.fold_in(jr.fold_in(root, t), stream)


def client_seeds(key: RandomKey, ids: Int[Array, " slots"]) -> UInt32[Array, " slots"]:
    """One 32-bit seed per client, for `scramble`: full threefry down to the client, cheap hashing below it."""

    def seed(client: Int[Array, ""]) -> UInt32[Array, ""]:
        return jr.bits(jr.fold_in(key, client), dtype=jnp.uint32)

    return jax.vmap(seed)(ids)


def scramble(seed: Bits) -> Bits:
    """A 32-bit finaliser with full avalanche: a few shifts and multiplies instead of a block cipher.

    Constants of Wellons' `lowbias32`. Threefry inside the loop over local steps cost thirty times the training itself.
    """
    seed = seed ^ (seed >> 16)
    seed = seed * jnp.uint32(0x7FEB352D)
    seed = seed ^ (seed >> 15)
    seed = seed * jnp.uint32(0x846CA68B)
    return seed ^ (seed >> 16)


def below(seed: Bits, bound: Int[Array, "..."]) -> Int[Array, "..."]:
    """An index in [0, bound) from the top 24 bits of a seed; uniform up to bound / 2²⁴."""
    share = (seed >> 8).astype(jnp.float32) * jnp.float32(2**-24)
    index = (share * bound.astype(jnp.float32)).astype(jnp.int32)
    return jnp.minimum(index, bound - 1)
