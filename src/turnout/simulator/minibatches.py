"""Which samples make a batch: drawn with replacement, or shuffled once per epoch."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from turnout.streams import below, scramble

Positions = Int[Array, " batch"]
Present = Float[Array, " batch"]
Seed = UInt32[Array, ""]
Step = Int[Array, ""]  # s, counted from 0 in each round
Chooser = Callable[[Seed, Step, Int[Array, ""], int], tuple[Positions, Present]]

_GOLDEN = 0x9E3779B9  # 2³² / φ, so that successive steps land far apart
_NOISE_SALT = 0x85EBCA6B  # any odd number
_SHUFFLE_ROUNDS = 24


def drawn(seed: Seed, s: Step, size: Int[Array, ""], batch_size: int) -> tuple[Positions, Present]:
    """Positions drawn uniformly with replacement for step s of a client's round."""
    step = scramble(seed + s.astype(jnp.uint32) * jnp.uint32(_GOLDEN))
    bits = scramble(step + jnp.arange(batch_size, dtype=jnp.uint32))
    return below(bits, size), jnp.ones(batch_size)


def shuffled(seed: Seed, s: Step, size: Int[Array, ""], batch_size: int) -> tuple[Positions, Present]:
    """Positions of step s when each epoch visits every sample once, in a new order; its last batch may be short."""
    batches = -(-size // batch_size)
    epoch = scramble(seed + (s // batches).astype(jnp.uint32) * jnp.uint32(_GOLDEN))
    place = (s % batches) * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    present = (place < size).astype(jnp.float32)
    return permuted(epoch, jnp.minimum(place, size - 1), size), present


def noise(seed: Seed, s: Step) -> Seed:
    """A seed for step s of a client's round, apart from those of its batch."""
    return scramble(scramble(seed + s.astype(jnp.uint32) * jnp.uint32(_GOLDEN)) ^ jnp.uint32(_NOISE_SALT))


def permuted(seed: Seed, places: Positions, size: Int[Array, ""]) -> Positions:
    """Images of the places under a random permutation of range(size), without building the permutation.

    The swap-or-not shuffle: in each round, a place and its mirror image about a random point change places or not, by a
    bit that both agree on. Every round is a bijection, so the whole is one, for any size.
    """
    count = size.astype(jnp.uint32)
    places = places.astype(jnp.uint32)
    for turn in range(_SHUFFLE_ROUNDS):
        salt = scramble(seed + jnp.uint32(turn * _GOLDEN % 2**32))
        centre = below(salt, size).astype(jnp.uint32)
        mirror = (centre + count - places) % count
        agreed = scramble(salt ^ scramble(jnp.maximum(places, mirror) + jnp.uint32(1)))
        places = jnp.where(agreed >> 31 == 1, mirror, places)
    return places.astype(jnp.int32)
