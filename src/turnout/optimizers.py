"""An optimizer and a schedule that optax lacks, and a trial of what any transformation does to a step."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from turnout.declarations import Declared, NotNegativeScalar, PositiveScalar, hold
from turnout.types import Round, Scalar, Schedule


def heavy_ball(learning_rate: float = 1.0, momentum: float = 0.9, decay: float = 0.0) -> optax.GradientTransformation:
    """SGD as PyTorch has it: the decay is added to the gradient, then comes the momentum, then the learning rate."""
    parts = [optax.trace(momentum), optax.scale(-learning_rate)]
    return optax.chain(*([optax.add_decayed_weights(decay)] if decay else []), *parts)


class InverseTime(Declared):
    """A learning rate of `first` in round 0 and half of it in round `half`; a grid of such numbers is one program."""

    first: NotNegativeScalar
    half: PositiveScalar

    def __call__(self, t: Round) -> Scalar:
        return self.first / (1.0 + jnp.asarray(t, jnp.float32) / self.half)


def inverse_time(first: float, half: float = 1.0) -> Schedule:
    """The schedule first / (1 + t / half)."""
    return InverseTime(first, half)


def check_schedule(name: str, rate: Scalar | Schedule) -> None:
    """Refuse a function of the round that gives no rate in round 0; a number passes."""
    if not callable(rate):
        return
    try:
        first = rate(0)
    except Exception as error:
        raise ValueError(f"{name} must be a function of the round, but for round 0 it fails: {error}") from error
    hold(f"{name} of round 0", first, NotNegativeScalar)


def first_updates(optimizer: optax.GradientTransformation, gradients: tuple[float, ...]) -> np.ndarray | None:
    """The first updates, one row per gradient, of a parameter that starts at 0 and of one that starts at 1.

    None where a transformation is made for the layers of one model, and so cannot be tried on another.
    """

    @jax.jit
    def run() -> jax.Array:
        params = [jnp.zeros(1), jnp.ones(1)]
        state, rows = optimizer.init(params), []
        for gradient in gradients:
            slopes = jax.tree.map(lambda leaf, slope=gradient: jnp.full_like(leaf, slope), params)
            updates, state = optimizer.update(slopes, state, params)
            params = optax.apply_updates(params, updates)
            rows.append(jnp.concatenate(jax.tree.leaves(updates)))
        return jnp.stack(rows)

    # At once, even while another program is traced; and as optax itself mixes integers and floats.
    with jax.ensure_compile_time_eval(), jax.numpy_dtype_promotion("standard"):
        try:
            return np.asarray(run(), np.float64)
        except (TypeError, ValueError):
            return None


@functools.lru_cache(maxsize=64)
def is_plain(optimizer: optax.GradientTransformation) -> bool:
    """Whether every update is minus the gradient, however long that is."""
    gradients = (1.0, -3e6, 2.0)
    updates = first_updates(optimizer, gradients)
    return updates is not None and bool(np.all(updates == -np.array(gradients)[:, None]))
