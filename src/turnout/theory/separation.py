"""Minimum separation: how often each client takes part when everyone must rest after a participation, in closed form.

Each round a batch of B clients is drawn with probability ∝ Π_{i in batch} p_i, among the batches disjoint from the R
previous ones (Sun et al. 2025). In the long run R+1 consecutive batches together are a conditional Poisson sample of
n = B(R+1) clients in random order; the proof is in docs/theory/minimum_separation.md.

The law of the rounds between two participations needs the explicit chain (`gap_law`), except in three cases. Without
separation the gap is geometric. With equal weights it is R plus a geometric number. Where B(R+1) = N it is always R+1.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from turnout.availability.mathematics.conditional_poisson import (
    inclusion_of_log_odds,
    inclusion_probabilities,
    log_symmetric,
)
from turnout.declarations import Count, CountOrZero, checked
from turnout.declarations.arrays import refuse
from turnout.theory.chains import return_law, stationary_law

SPACING, FIRST_NODE, LAST_NODE = 0.08, -4.0, 6.0  # of the trapezoidal rule in `shortest_gap`
MAX_STATES = 200_000
Batch = tuple[int, ...]
Window = tuple[Batch, ...]  # the newest batch first


@checked
def minimum_separation(p: Sequence[float] | np.ndarray, batch: Count = 1, separation: CountOrZero = 0) -> np.ndarray:
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


@checked
def separation_curve(
    p: Sequence[float] | np.ndarray, batch: Count = 1, separations: Sequence[int] | range | None = None
) -> np.ndarray:
    """The shares of `minimum_separation` for several separations, one row each; all possible ones if none are named.

    From row to row every ratio of two shares moves towards 1, and Σ_i |π_R(i) - 1/N| never increases, for every p.
    """
    odds, _ = check_weights(p, batch, 0)
    rests = range(odds.size // batch) if separations is None else separations
    return np.array([minimum_separation(odds, batch, rest) for rest in rests]).reshape(-1, odds.size)


@checked
def mean_gap(p: Sequence[float] | np.ndarray, batch: Count = 1, separation: CountOrZero = 0) -> np.ndarray:
    """Mean number of rounds from one participation of a client to its next, 1 / (B π_R(i)), by Kac's formula."""
    return 1 / (batch * minimum_separation(p, batch, separation))


@checked
def shortest_gap(p: Sequence[float] | np.ndarray, separation: CountOrZero = 0) -> np.ndarray:
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
    if batch > odds.size:
        raise ValueError(f"batch = {batch} with {odds.size} clients: must be at most {odds.size}")
    if batch * (separation + 1) > odds.size:
        raise ValueError(
            f"separation = {separation} with batch = {batch} and {odds.size} clients: "
            f"every round needs a full batch of rested clients, so at most {odds.size // batch - 1} (N/B - 1)"
        )
    return odds, batch * (separation + 1)


class OrderChain(NamedTuple):
    """A chain whose states are the last R batches; for R = 0 the last one, on which the next does not depend."""

    transition: sp.csr_array  # P_R, one row per state
    masks: np.ndarray  # who is in the newest batch of each state, as `finite_chain` takes it
    windows: list[Window]  # the batches of each state, the newest first


@checked
def order_chain(
    p: Sequence[float] | np.ndarray,
    batch: Count = 1,
    separation: CountOrZero = 0,
    sampling: Literal["product", "successive"] = "product",
) -> OrderChain:
    """Build the chain in which a rested batch S has probability ∝ Π_{i in S} p_i, or is drawn one by one.

    It has N! / (B!^R (N - BR)!) states, so it is for small fleets only. It is irreducible and aperiodic where
    B(R+1) < N. Where B(R+1) = N it splits into cycles of R+1 states; every client takes part once in each.
    """
    odds, _ = check_weights(p, batch, separation)
    if sampling not in ("product", "successive"):
        raise ValueError(f'sampling = "{sampling}": must be "product" or "successive"')
    depth = max(separation, 1)
    windows = list(_windows(odds.size, batch, depth))
    index = {window: state for state, window in enumerate(windows)}
    entries = [
        (state, index[(drawn, *window)[:depth]], chance)
        for window, state in index.items()
        for drawn, chance in _draws(odds, window[:separation], batch, sampling)
    ]
    rows, columns, chances = (np.array(column) for column in zip(*entries, strict=True))
    transition = sp.csr_array((chances, (rows, columns)), shape=(len(windows), len(windows)))
    masks = np.zeros((len(windows), odds.size), dtype=bool)
    for state, window in enumerate(windows):
        masks[state, list(window[0])] = True
    return OrderChain(transition, masks, windows)


@checked
def participation_law(chain: OrderChain) -> np.ndarray:
    """Share of all participations that each client has, from the stationary law ζ_R of the chain; it sums to 1.

    π_R(i) = Σ_s ζ_R(s) 1{i in the newest batch of s} / B.
    """
    counts = stationary_law(chain.transition) @ chain.masks
    return counts / counts.sum()


@checked
def gap_law(chain: OrderChain, client: CountOrZero, longest: Count) -> np.ndarray:
    """P(a client's next participation is s rounds after this one), s = 1 … longest, in the long run.

    1 minus their sum is the probability of a longer gap. Exact; the first R entries are 0.
    """
    if not 0 <= client < chain.masks.shape[1]:
        raise ValueError(f"client = {client}: the chain has clients 0 to {chain.masks.shape[1] - 1}")
    return return_law(chain.transition, chain.masks[:, client], longest)


def _windows(num_clients: int, batch: int, depth: int) -> Iterator[Window]:
    count = math.perm(num_clients, batch * depth) // math.factorial(batch) ** depth
    if count > MAX_STATES:
        raise ValueError(
            f"{num_clients} clients in batches of {batch} with {depth} batches to remember make {count} states: "
            f"at most {MAX_STATES} can be listed; minimum_separation has the law in closed form"
        )
    return _extend((), frozenset(range(num_clients)), batch, depth)


def _extend(window: Window, left: frozenset[int], batch: int, depth: int) -> Iterator[Window]:
    if depth == 0:
        yield window
        return
    for chosen in itertools.combinations(sorted(left), batch):
        yield from _extend((*window, chosen), left - set(chosen), batch, depth - 1)


def _draws(odds: np.ndarray, resting: Window, batch: int, sampling: str) -> Iterator[tuple[Batch, float]]:
    rested = sorted(set(range(odds.size)) - set(itertools.chain(*resting)))
    batches = list(itertools.combinations(rested, batch))
    weigh = _product if sampling == "product" else _successive
    weights = np.array([weigh(odds[list(drawn)], odds[rested].sum()) for drawn in batches])
    return zip(batches, (weights / weights.sum()).tolist(), strict=True)


def _product(odds: np.ndarray, total: float) -> float:
    return float(np.prod(odds / total))


def _successive(odds: np.ndarray, total: float) -> float:
    """Sum over the orders in which the batch may be drawn, each client by its weight among those not yet drawn."""
    return sum(
        math.prod(
            p / (total - before) for p, before in zip(order, itertools.accumulate(order[:-1], initial=0.0), strict=True)
        )
        for order in itertools.permutations(odds.tolist())
    )
