"""The algebra of one on/off client: everything that follows from its stationary rate π and correlation λ.

Every function takes numbers or arrays, which are paired entry by entry, and returns arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnout.arguments import at_least, refuse
from turnout.availability.markov import lowest_correlation, switching_rates

Numbers = float | int | Sequence[float | int] | np.ndarray


def wake_and_sleep(pi: Numbers, lam: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """P(off → on) = (1 - λ) π and P(on → off) = (1 - λ)(1 - π); a ValueError for a pair (π, λ) that no chain has."""
    rate, correlation = _pair(pi, lam)
    wake, sleep = switching_rates(rate.ravel(), correlation.ravel())
    return wake.reshape(rate.shape), sleep.reshape(rate.shape)


def feasible_correlation(pi: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """The range [max(1 - 1/π, 1 - 1/(1 - π)), 1) in which λ may lie; the upper end is excluded."""
    rate = np.asarray(pi, dtype=np.float64)
    flat = rate.ravel()
    refuse(~((flat > 0) & (flat < 1)), lambda k: f"client {k} has pi = {flat[k]:g}", "must lie in (0, 1)")
    return lowest_correlation(flat).reshape(rate.shape), np.ones_like(rate)


def mean_on_run(pi: Numbers, lam: Numbers) -> np.ndarray:
    """Expected number of rounds that an available client stays, 1 / ((1 - λ)(1 - π)); infinite for π = 1."""
    _, sleep = wake_and_sleep(pi, lam)
    return np.where(sleep > 0, 1 / np.where(sleep > 0, sleep, 1), np.inf)


def mean_off_run(pi: Numbers, lam: Numbers) -> np.ndarray:
    """Expected number of rounds that an absent client stays away, 1 / ((1 - λ) π)."""
    wake, _ = wake_and_sleep(pi, lam)
    return np.asarray(1 / wake)


def effective_rounds(lam: Numbers, rounds: int) -> np.ndarray:
    """Number of independent rounds whose mean availability has the same variance as T rounds of the chain, exact.

    T² / Σ_{s,t < T} λ^|s-t|, which is T for λ = 0 and tends to T (1 - λ)/(1 + λ); infinite where the variance is 0.
    """
    total = _summed_correlations(lam, rounds)
    return np.where(total > 0, rounds**2 / np.where(total > 0, total, 1), np.inf)


def variance_of_mean(pi: Numbers, lam: Numbers, rounds: int) -> np.ndarray:
    """Variance of the share of T rounds in which a stationary client is available, exact for every T.

    π(1 - π)/T² · Σ_{s,t < T} λ^|s-t| = π(1 - π)/T² · [ T (1 + λ)/(1 - λ) - 2λ (1 - λ^T)/(1 - λ)² ].
    """
    rate, correlation = _pair(pi, lam)
    wake_and_sleep(rate, correlation)
    return np.asarray(rate * (1 - rate) * _summed_correlations(correlation, rounds) / rounds**2)


def two_state_mixing_time(pi: Numbers, lam: Numbers, error: float = 0.25) -> np.ndarray:
    """First round t at which |λ|^t max(π, 1 - π), the distance from the worst start, is at most `error`.

    Whole numbers as floats: a client that alternates strictly (λ = -1) never forgets its start and gets infinity.
    """
    if not 0 < error < 1:
        raise ValueError(f"error = {error:g}: must lie in (0, 1)")
    rate, correlation = _pair(pi, lam)
    wake_and_sleep(rate, correlation)
    farthest, memory = np.maximum(rate, 1 - rate), np.abs(correlation)
    farthest = np.where(rate == 1, 0.0, farthest)  # a client that never leaves has no other state to start from
    between = (memory > 0) & (memory < 1)
    rounds = np.ceil(np.log(error / np.where(farthest > error, farthest, 1)) / np.log(np.where(between, memory, 0.5)))
    # The logarithms may round to the wrong side of a whole number.
    rounds = np.where(memory ** np.maximum(rounds - 1, 0) * farthest <= error, rounds - 1, rounds)
    rounds = np.where(between, rounds, np.where(memory > 0, np.inf, 1.0))
    return np.where(farthest <= error, 0.0, rounds)


def _summed_correlations(lam: Numbers, rounds: int) -> np.ndarray:
    """Σ_{s,t < T} λ^|s-t|, by doubling T: positive terms only for λ > 0, where the closed form cancels near λ = 1.

    With g_T = Σ_{k < T} λ^k: S_{2T} = 2 S_T + 2λ g_T², and S_{T+1} = S_T + 1 + 2λ g_T.
    """
    rounds = at_least("rounds", rounds, 1)
    correlation = np.asarray(lam, dtype=np.float64)
    _check_correlation(correlation)
    total, geometric, power = np.ones_like(correlation), np.ones_like(correlation), correlation  # T = 1
    for bit in bin(rounds)[3:]:
        total, geometric, power = 2 * total + 2 * correlation * geometric**2, geometric * (1 + power), power**2
        if bit == "1":
            total, geometric, power = total + 1 + 2 * correlation * geometric, geometric + power, power * correlation
    return np.asarray(np.maximum(total, 0.0))


def _check_correlation(lam: np.ndarray) -> None:
    flat = lam.ravel()
    refuse(~((flat >= -1) & (flat < 1)), lambda k: f"client {k} has lam = {flat[k]:g}", "must lie in [-1, 1)")


def _pair(first: Numbers, second: Numbers) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    return np.array(left), np.array(right)
