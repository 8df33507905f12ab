"""The order-R chain of Sun et al. 2025, state by state: exact for small fleets, and a check of the closed form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from turnout.theory.chains import stationary_law
from turnout.theory.mixing import return_law
from turnout.theory.separation import check_weights

MAX_STATES = 200_000

Batch = tuple[int, ...]
Window = tuple[Batch, ...]  # the newest batch first


class OrderChain(NamedTuple):
    """A chain whose states are the last R batches; for R = 0 the last one, on which the next does not depend."""

    transition: sp.csr_array  # P_R, one row per state
    masks: np.ndarray  # who is in the newest batch of each state, as `finite_chain` takes it
    windows: list[Window]  # the batches of each state, the newest first


def order_chain(
    p: Sequence[float] | np.ndarray,
    batch: int = 1,
    separation: int = 0,
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


def participation_law(chain: OrderChain) -> np.ndarray:
    """Share of all participations that each client has, from the stationary law ζ_R of the chain; it sums to 1.

    π_R(i) = Σ_s ζ_R(s) 1{i in the newest batch of s} / B.
    """
    counts = stationary_law(chain.transition) @ chain.masks
    return counts / counts.sum()


def gap_law(chain: OrderChain, client: int, longest: int) -> np.ndarray:
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
