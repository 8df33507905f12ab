"""Participation under a minimum separation: how far it is from uniform, and how fast it approaches its long run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from turnout.availability import minimum_separation
from turnout.availability.base import Process
from turnout.theory import minimum_separation as long_run_shares
from turnout.theory import order_chain, separation_curve, total_variation_over_time
from turnout.types import RandomKey
from turnout.workbench.reproduction.curve_table import Curve

Distances = Callable[[np.ndarray, int, int], np.ndarray]  # of weights, a separation and a seed


def separation_bias(num_clients: int = 500, batch: int = 1, seeds: int = 10) -> list[Curve]:
    """‖π_R − 1/N‖₁ for every possible R; a seed draws weights p, uniform between 0 and 1."""
    rows = []
    for seed in range(seeds):
        weights = 1 - np.random.default_rng(seed).random(num_clients)  # in (0, 1]
        shares = separation_curve(weights, batch)
        rows.append(np.abs(shares - 1 / num_clients).sum(axis=1))
    separations = np.arange(num_clients // batch)
    return [Curve("", "random weights", "distance", separations, tuple(range(seeds)), np.array(rows))]


def separation_mixing(
    num_clients: int = 100,
    separations: Sequence[int] = (0, 10, 20, 40, 80),
    rounds: int = 1000,
    seeds: int = 10,
    small_fleet: int = 6,
    small_separations: Sequence[int] = (0, 1, 2, 3),
    small_rounds: int = 40,
) -> list[Curve]:
    """Total variation to the long run after t rounds, with batches of one; a seed draws weights p, uniform in (0, 1].

    Panel "frequencies": of how often each client was drawn so far, n_i(t) / t, to π_R, in simulated runs. Panel
    "chain": of the law of the last R clients from the worst start, the distance that defines the mixing time; exact,
    for a fleet small enough to list all states.
    """

    def frequencies(weights: np.ndarray, separation: int, seed: int) -> np.ndarray:
        process = minimum_separation(num_clients, weights.tolist(), separation=separation)
        shares = jnp.asarray(long_run_shares(weights, 1, separation), jnp.float32)
        return np.asarray(_distance_of_frequencies(process, shares, jr.key(seed), rounds))

    def chain(weights: np.ndarray, separation: int, seed: int) -> np.ndarray:
        return total_variation_over_time(order_chain(weights, 1, separation).transition, small_rounds)[1:]

    return [
        *_curves("frequencies", frequencies, num_clients, separations, seeds),
        *_curves("chain", chain, small_fleet, small_separations, seeds),
    ]


def _curves(panel: str, distances: Distances, num_clients: int, separations: Sequence[int], seeds: int) -> list[Curve]:
    weights = [1 - np.random.default_rng(seed).random(num_clients) for seed in range(seeds)]
    curves = []
    for separation in separations:
        values = np.array([distances(p, separation, seed) for seed, p in enumerate(weights)])
        x = _spread_rounds(values.shape[1])
        curves.append(Curve(panel, f"R = {separation}", "distance", x, tuple(range(seeds)), values[:, x - 1]))
    return curves


def _spread_rounds(rounds: int) -> np.ndarray:
    """Every round at first, then rounds in equal ratios: enough for a line, and a smaller file."""
    return np.unique(np.r_[1 : min(rounds, 300) + 1, np.rint(np.geomspace(1, rounds, 150)).astype(int)])


@jax.jit(static_argnames="rounds")
def _distance_of_frequencies(
    process: Process, shares: Float[Array, " clients"], key: RandomKey, rounds: int
) -> Float[Array, " rounds"]:
    """½ Σ_i |n_i(t) / t − π_i| for t = 1 … rounds of one run that begins in the long run."""
    start_key, draws_key = jr.split(key)

    def play(now: tuple, t: Array) -> tuple:
        state, counts = now
        state, drawn = process.step(state, t, jr.fold_in(draws_key, t))
        counts = counts + drawn.astype(jnp.float32)
        return (state, counts), 0.5 * jnp.sum(jnp.abs(counts / (t + 1).astype(jnp.float32) - shares))

    begin = (process.init(start_key), jnp.zeros_like(shares))
    return jax.lax.scan(play, begin, jnp.arange(rounds, dtype=jnp.int32))[1]
