"""A learning rate that falls like 1 / t, for claims that name it as the schedule of a strategy."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout.types import Round, Scalar, Schedule


class InverseTime(eqx.Module):
    """`first` in round 0, half of it in round `half`; its numbers are leaves, so a grid of them is one program."""

    first: Scalar
    half: Scalar

    def __call__(self, t: Round) -> Scalar:
        return self.first / (1.0 + jnp.asarray(t, jnp.float32) / self.half)


def inverse_time(first: float, half: float = 1.0) -> Schedule:
    """The schedule first / (1 + t / half)."""
    return InverseTime(first, half)
