"""Rounds between two participations of a client under minimum separation, where no explicit chain is needed.

The full law needs the explicit chain (`gap_law`), except in three cases. Without separation the gap is geometric. With
equal weights it is R plus a geometric number. Where B(R+1) = N it is always R+1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnout.availability.mathematics.symmetric import inclusion_of_log_odds, log_symmetric
from turnout.theory.separation import check_weights, minimum_separation

SPACING, FIRST_NODE, LAST_NODE = 0.08, -4.0, 6.0  # of the trapezoidal rule in `shortest_gap`


def mean_gap(p: Sequence[float] | np.ndarray, batch: int = 1, separation: int = 0) -> np.ndarray:
    """Mean number of rounds from one participation of a client to its next, 1 / (B π_R(i)), by Kac's formula."""
    return 1 / (batch * minimum_separation(p, batch, separation))


def shortest_gap(p: Sequence[float] | np.ndarray, separation: int = 0) -> np.ndarray:
    """Probability that a client comes back as soon as it may, R+1 rounds after a participation, for batches of one.

    With the weights scaled to sum to 1 and n = R+1,

        P(gap = R+1) = p_i ∫_0^∞ exp(-u (1 + p_i)) · e_n(a)/e_n(p) · I_i(a)/I_i(p) du,      a_j = p_j exp(u p_j),

    where I_i = p_i e_{n-1}(p without i)/e_n(p) is an inclusion probability. A double-exponential rule of 125 points
    computes the integral, at 250 times the cost of `minimum_separation`. The error is near 1e-12. It is larger where
    the clients left while the heaviest rest have only a tiny share of the weight.
    """
    odds, size = check_weights(p, 1, separation)
    odds = odds / odds.sum()
    if size == odds.size:
        return np.ones(size)
    log_odds = np.log(odds)
    log_inclusion, log_total = np.log(inclusion_of_log_odds(log_odds, size)), log_symmetric(log_odds, size)
    # Mixtures of exp(-u x), with x the weight of the rested clients: at least that of all but the R heaviest.
    lightest = np.sort(odds)[: odds.size - separation].sum()
    total = np.zeros(odds.size)
    for t in np.arange(FIRST_NODE, LAST_NODE, SPACING):
        u = np.exp(t - np.exp(-t)) / lightest
        tilted = log_odds + u * odds
        log_ratio = log_symmetric(tilted, size) - u - log_total
        slope = u * (1 + np.exp(-t))
        total += SPACING * slope * np.exp(log_ratio - u * odds - log_inclusion) * inclusion_of_log_odds(tilted, size)
    return np.minimum(odds * total, 1.0)
