"""Optimizers and a schedule that optax lacks, and a trial of what any transformation does to a step."""

from __future__ import annotations

import functools
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from turnout.declarations import (
    Declared,
    NotNegative,
    NotNegativeScalar,
    Numbers,
    Positive,
    PositiveScalar,
    checked,
    hold,
)
from turnout.types import Array, Params, Round, Scalar, Schedule

Decay = Annotated[float, Numbers(0, 1, below=True)]
Rule = Literal["adagrad", "adam", "yogi"]


def heavy_ball(learning_rate: float = 1.0, momentum: float = 0.9, decay: float = 0.0) -> optax.GradientTransformation:
    """SGD as PyTorch has it: the decay is added to the gradient, then comes the momentum, then the learning rate."""
    parts = [optax.trace(momentum), optax.scale(-learning_rate)]
    return optax.chain(*([optax.add_decayed_weights(decay)] if decay else []), *parts)


@checked
def fedavgm(learning_rate: NotNegative = 1.0, momentum: Decay = 0.9) -> optax.GradientTransformation:
    """FedAvgM's server step (Hsu et al. 2019): m ← momentum · m + d, w ← w + learning_rate · m."""
    return _kept_momentum(float(learning_rate), float(momentum))


@checked
def fedadagrad(learning_rate: NotNegative = 1.0, b1: Decay = 0.0, tau: Positive = 1e-3) -> optax.GradientTransformation:
    """FedAdagrad's server step (Reddi et al. 2021): v ← v + d², w ← w + learning_rate · m / (√v + τ)."""
    return _adaptive("adagrad", float(learning_rate), float(b1), 0.0, float(tau))


@checked
def fedadam(
    learning_rate: NotNegative = 1.0, b1: Decay = 0.9, b2: Decay = 0.99, tau: Positive = 1e-3
) -> optax.GradientTransformation:
    """FedAdam's server step (Reddi et al. 2021): v ← b2 v + (1 - b2) d², w ← w + learning_rate · m / (√v + τ)."""
    return _adaptive("adam", float(learning_rate), float(b1), float(b2), float(tau))


@checked
def fedyogi(
    learning_rate: NotNegative = 1.0, b1: Decay = 0.9, b2: Decay = 0.99, tau: Positive = 1e-3
) -> optax.GradientTransformation:
    """FedYogi's server step (Reddi et al. 2021): v ← v - (1 - b2) d² sign(v - d²), else as FedAdam."""
    return _adaptive("yogi", float(learning_rate), float(b1), float(b2), float(tau))


class Moments(NamedTuple):
    """State of an adaptive server step."""

    m: Params  # m ← b1 m + (1 - b1) d, at first 0
    v: Params  # of squares, at first τ²


# One object for equal arguments, so that it is one key of the compilation cache.
@functools.lru_cache(maxsize=256)
def _kept_momentum(learning_rate: float, momentum: float) -> optax.GradientTransformation:
    return optax.sgd(learning_rate, momentum=momentum)


@functools.lru_cache(maxsize=256)
def _adaptive(rule: Rule, learning_rate: float, b1: float, b2: float, tau: float) -> optax.GradientTransformation:
    """The paper's algorithm 2, without a correction of the moments for their start."""

    def squares(v: Array, d: Array) -> Array:
        if rule == "adagrad":
            return v + d**2
        if rule == "adam":
            return b2 * v + (1 - b2) * d**2
        return v - (1 - b2) * d**2 * jnp.sign(v - d**2)

    def init(params: Params) -> Moments:
        return Moments(
            jax.tree.map(jnp.zeros_like, params), jax.tree.map(lambda leaf: jnp.full_like(leaf, tau**2), params)
        )

    def update(updates: Params, state: Moments, params: Params | None = None) -> tuple[Params, Moments]:
        m = jax.tree.map(lambda held, d: b1 * held + (1 - b1) * d, state.m, updates)
        v = jax.tree.map(squares, state.v, updates)
        return jax.tree.map(lambda along, size: -learning_rate * along / (jnp.sqrt(size) + tau), m, v), Moments(m, v)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


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
