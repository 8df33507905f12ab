"""Windows of rounds at whose end the model goes further than it has come, shared by two strategies."""

from __future__ import annotations

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from turnout import tree
from turnout.declarations import MAX_COUNT, Numbers
from turnout.types import Params, Round, Scalar

WindowLength = Annotated[Scalar, Numbers(1, MAX_COUNT, whole=True)]
Gain = Annotated[Scalar, Numbers(1)]


class WindowStart(eqx.Module):
    """The window under way."""

    start: Params  # w̄, the model at its start

    def move(self, t: Round, length: Scalar, gain: Scalar, params: Params, step: Params) -> tuple[Params, WindowStart]:
        """The way of round t: its own step, and to w̄ + γ (w - w̄) if the window ends with it."""
        ends = self.ends(t, length)
        reached = tree.subtract(tree.add(params, step), self.start)
        far = tree.subtract(tree.add(self.start, tree.scale(reached, gain)), params)
        direction = tree.where(ends, far, step)
        return direction, WindowStart(tree.where(ends, tree.add(params, direction), self.start))

    @staticmethod
    def ends(t: Round, length: Scalar) -> Bool[Array, ""]:
        """Whether a window ends with round t."""
        return (jnp.asarray(t, jnp.int32) + 1) % jnp.asarray(length, jnp.int32) == 0

    @staticmethod
    def number(t: Round, length: Scalar) -> Int[Array, ""]:
        """Which window round t is in."""
        return jnp.asarray(t, jnp.int32) // jnp.asarray(length, jnp.int32)
