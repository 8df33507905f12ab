"""Minimum separation: how often each client takes part when everyone must rest after a participation, in closed form.

Each round a batch of B clients is drawn with probability ∝ Π_{i in batch} p_i, among the batches disjoint from the R
previous ones (Sun et al. 2025). In the long run R+1 consecutive batches together are a conditional Poisson sample of
n = B(R+1) clients in random order; the proof is in docs/theory/minimum_separation.md.

The law of the rounds between two participations needs the explicit chain (`gap_law`), except in three cases. Without
separation the gap is geometric. With equal weights it is R plus a geometric number. Where B(R+1) = N it is always R+1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnout.arguments import at_least, refuse
from turnout.availability.mathematics.symmetric import inclusion_of_log_odds, inclusion_probabilities, log_symmetric

SPACING, FIRST_NODE, LAST_NODE = 0.08, -4.0, 6.0  # of the trapezoidal rule in `shortest_gap`


def minimum_separation(p: Sequence[float] | np.ndarray, batch: int = 1, separation: int = 0) -> np.ndarray:
    """Share of all participations that each client has in the long run; the shares sum to 1.

        π_R(i) = p_i e_{n-1}(p without i) / (n e_n(p)),      n = batch · (separation + 1),

    with e the elementary symmetric polynomials. Only the ratios of the weights `p` matter. The probability of being in
    a given round's batch is `batch` times the share.

    The cost is O(N) for any batch and separation. The error of n π_R(i), a probability, is below 1e-13 for up to
    100,000 clients, as measured by benchmarks/theory.py. For N = 500 and every separation it is at most 6e-15, against
    sums of positive terms in extended precision. For N = 100,000, batch 100, separation 50 it is at most 3e-16 for
    sampled clients, and 2e-15 for all of them, by an identity between successive n.
    """
    odds, size = check_weights(p, batch, separation)
    return inclusion_probabilities(odds, size) / size


def separation_curve(
    p: Sequence[float] | np.ndarray, batch: int = 1, separations: Sequence[int] | range | None = None
) -> np.ndarray:
    """The shares of `minimum_separation` for several separations, one row each; all possible ones if none are named.

    From row to row every ratio of two shares moves towards 1, and Σ_i |π_R(i) - 1/N| never increases, for every p.
    """
    odds, _ = check_weights(p, batch, 0)
    rests = range(odds.size // batch) if separations is None else separations
    return np.array([minimum_separation(odds, batch, rest) for rest in rests]).reshape(-1, odds.size)


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


def check_weights(p: Sequence[float] | np.ndarray, batch: int, separation: int) -> tuple[np.ndarray, int]:
    """The weights as an array, and the number of clients in R+1 batches; a ValueError if there are too few clients."""
    odds = np.asarray(p, dtype=np.float64)
    if odds.ndim != 1 or odds.size == 0:
        raise ValueError(f"p has shape {odds.shape}: must be a list of weights, one per client")
    refuse(
        ~((odds > 0) & np.isfinite(odds)),
        lambda i: f"client {i} has p = {odds[i]:g}",
        "must be positive and finite; leave out clients that never come",
    )
    batch, separation = at_least("batch", batch, 1), at_least("separation", separation, 0)
    if batch > odds.size:
        raise ValueError(f"batch = {batch} with {odds.size} clients: must be at most {odds.size}")
    if batch * (separation + 1) > odds.size:
        raise ValueError(
            f"separation = {separation} with batch = {batch} and {odds.size} clients: "
            f"every round needs a full batch of rested clients, so at most {odds.size // batch - 1} (N/B - 1)"
        )
    return odds, batch * (separation + 1)
