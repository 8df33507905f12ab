"""Drawing a set of given size in compiled code: by the product of its odds, or one unit after another."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int

from turnout.types import RandomKey

LogOdds = Float[Array, " units"]  # log p, -inf for a unit that must not be drawn
Drawn = Bool[Array, " units"]
Count = Int[Array, ""]

BISECTIONS = 16


def draw_successively(key: RandomKey, log_odds: LogOdds, at_most: int) -> Drawn:
    """Draw units in turn, each proportionally to p among those left (Gumbel top-k).

    Returns fewer than `at_most` if fewer can be drawn.
    """
    score = log_odds + jr.gumbel(key, log_odds.shape, log_odds.dtype)
    best, units = jax.lax.top_k(score, at_most)
    return jnp.zeros(log_odds.shape, bool).at[units].set(best > -jnp.inf)


def draw_by_product(key: RandomKey, log_odds: LogOdds, size: Count) -> Drawn:
    """Draw a set of `size` units with probability proportional to the product of their p (conditional Poisson).

    Units are drawn independently, all of them again until their number is `size`. This is exact, and takes about 2.5 σ
    tries of O(N) with σ² < size the variance of that number. Dividing the size along a tree of elementary symmetric
    polynomials needs no second try. At N = 1000 it was slower for 10 units and faster for 100, and took 2 to 5 times as
    long to compile.
    """
    chance = jax.nn.sigmoid(_tilt(log_odds, size))

    def again(carry: tuple[RandomKey, Drawn]) -> tuple[RandomKey, Drawn]:
        key, sub = jr.split(carry[0])
        return key, jr.uniform(sub, chance.shape, chance.dtype) < chance

    def wrong(carry: tuple[RandomKey, Drawn]) -> Bool[Array, ""]:
        return jnp.sum(carry[1], dtype=jnp.int32) != size

    _, drawn = jax.lax.while_loop(wrong, again, (key, jnp.zeros(chance.shape, bool)))
    return drawn


def _tilt(log_odds: LogOdds, size: Count) -> LogOdds:
    """Log odds shifted by one common amount, so that the expected number of independent draws is about `size`.

    The shift does not change the law of a set given its size; it only makes that size likely.
    """
    possible = log_odds > -jnp.inf
    count = jnp.sum(possible, dtype=log_odds.dtype)
    wanted = jnp.maximum(size.astype(log_odds.dtype), 1)
    # If no unit can be drawn the bounds have no meaning, and no shift matters: -inf stays -inf.
    highest = jnp.max(log_odds, initial=-1e30)
    lowest = jnp.min(jnp.where(possible, log_odds, jnp.inf), initial=1e30)
    low = jnp.log(wanted / jnp.maximum(count, 1)) - highest
    high = jnp.log(wanted / jnp.maximum(count - wanted, 1e-6)) - lowest

    def halve(_: Count, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (bounds[0] + bounds[1]) / 2
        short = jnp.sum(jax.nn.sigmoid(log_odds + middle)) < wanted
        return jnp.where(short, middle, bounds[0]), jnp.where(short, bounds[1], middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return log_odds + high
