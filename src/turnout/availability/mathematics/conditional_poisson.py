"""Conditional Poisson sampling: draws of a given size in compiled code, and inclusion probabilities without a draw."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.optimize import root_scalar
from scipy.special import expit

from turnout.declarations import CountOrZero, checked
from turnout.types import RandomKey

LogOdds = Float[Array, " units"]  # log p, -inf for a unit that must not be drawn
Drawn = Bool[Array, " units"]
Count = Int[Array, ""]

BISECTIONS = 16
NEGLIGIBLE_EXPONENT = 45.0  # terms below exp(-45) vanish beside 1 in double precision


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


@checked
def inclusion_probabilities(p: Sequence[float] | np.ndarray, n: CountOrZero) -> np.ndarray:
    """Probability that each unit is in a sample of n, drawn with probability proportional to the product of its odds p.

    That is p_i e_{n-1}(p without i) / e_n(p), with e the elementary symmetric polynomials. A common factor of the odds
    changes nothing; it is chosen so that independent units q_i = p_i / (1 + p_i) have expected number n. Then

        π_i = q_i P(S without i = n - 1) / P(S = n),      S = Σ_j Bernoulli(q_j),

    where both probabilities are near the mean, hence of size 1/σ, and follow from the characteristic function of S.
    The cost is O(N) for any n, since only frequencies up to about 10/σ matter; the absolute error is near 1e-14.
    """
    odds = np.asarray(p, dtype=np.float64)
    if odds.ndim != 1:
        raise ValueError(f"p has shape {odds.shape}: must be a list of odds, one for each unit")
    if not (odds > 0).all() or not np.isfinite(odds).all():
        raise ValueError("p: all odds must be positive and finite")
    return inclusion_of_log_odds(np.log(odds), n)


def inclusion_of_log_odds(log_odds: np.ndarray, n: int) -> np.ndarray:
    """Like `inclusion_probabilities`, for odds too far apart to be written without a logarithm."""
    _check_size(log_odds, n)
    if n in (0, log_odds.size):
        return np.full(log_odds.size, float(n > 0))
    tilted = log_odds + _common_shift(log_odds, n)
    q, rest = expit(tilted), expit(-tilted)
    total, without = 0.0, np.zeros(log_odds.size)
    for angle, weight in _frequencies(q, rest):
        log_factors = np.log(rest + q * np.exp(1j * angle))
        turned = log_factors.sum() - 1j * angle * n
        total += weight * np.exp(turned).real
        without += weight * np.exp(turned - log_factors + 1j * angle).real
    return np.clip(q * without / total, 0.0, 1.0)


def log_symmetric(log_odds: np.ndarray, n: int) -> float:
    """Logarithm of e_n(p), the elementary symmetric polynomial of the odds.

    It is -n s + Σ_j log(1 + exp(s) p_j) + log P(S = n), where s is
    the common shift of the log odds at which S, a sum of independent Bernoulli units, has mean n.
    """
    _check_size(log_odds, n)
    if n in (0, log_odds.size):
        return float(log_odds.sum()) if n else 0.0
    shift = _common_shift(log_odds, n)
    q, rest = expit(log_odds + shift), expit(-log_odds - shift)
    turned = [(w, np.log(rest + q * np.exp(1j * a)).sum() - 1j * a * n) for a, w in _frequencies(q, rest)]
    chance = sum(weight * float(np.exp(log_term).real) for weight, log_term in turned)
    return float(np.logaddexp(0, log_odds + shift).sum() - n * shift + np.log(chance))


def _check_size(log_odds: np.ndarray, n: int) -> None:
    if not 0 <= n <= log_odds.size:
        raise ValueError(f"n = {n}: a sample of {log_odds.size} units has between 0 and {log_odds.size} of them")


def _common_shift(log_odds: np.ndarray, n: int) -> float:
    """The shift of the log odds at which the expected size of the sample is n."""
    room = 1.0 + np.log(log_odds.size)
    low, high = -log_odds.max() - room, -log_odds.min() + room
    solution = root_scalar(lambda s: expit(log_odds + s).sum() - n, bracket=(low, high), method="brentq")
    return float(solution.root)


def _frequencies(q: np.ndarray, rest: np.ndarray) -> list[tuple[float, float]]:
    """Angles, and their weights, at which to evaluate the characteristic function.

    A discrete Fourier sum of `length` points knows S only modulo `length`; Bernstein's inequality says when the aliased
    part is negligible. Terms decay like exp(-σ²(1 - cos θ)), so most angles can be left out. The length is odd, since
    at θ = π the factor of a unit with q = 1/2 vanishes.
    """
    variance = float((q * rest).sum())
    length = min(q.size + 1, int(10 * np.sqrt(variance)) + 32) | 1
    steps = np.arange(length // 2 + 1)
    angles = 2 * np.pi * steps / length
    # Leaving one unit out lowers the variance by at most 1/4.
    kept = max(variance - 0.25, 0.0) * (1 - np.cos(angles)) <= NEGLIGIBLE_EXPONENT
    weights = np.where(steps == 0, 1.0, 2.0) / length  # an angle and its mirror image have the same real part
    return [(float(a), float(w)) for a, w in zip(angles[kept], weights[kept], strict=True)]
