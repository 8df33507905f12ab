"""Intervals of π of on/off chains from their transitions.

A client with a long memory changes a few times in a run. Then no formula for many rounds holds, but the posterior does,
computed on a grid: with a flat prior on π and on the logit of λ, and the likelihood of all transitions and of the state
in which the client was met. `benchmarks/interval_coverage.py` counts how often the intervals hold the truth.
"""

from functools import lru_cache

import numpy as np
from scipy.special import digamma, expit, polygamma

_TAIL, _NORMAL = 0.025, 1.96  # of an interval of 95 %
_MANY = 20  # changes in either direction beyond which log odds are close to normal
_TOGETHER = 512  # clients whose posteriors are in memory at once
_PI = (np.arange(100) + 0.5) / 100
_LAM = np.concatenate([[-0.5, -0.25], expit(np.linspace(-4.6, 4.6, 24))])  # the first for clients that come by turns


def pi_intervals(moves: np.ndarray, met_on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, given transitions off-off, off-on, on-off and on-on per client, and whether it was met on."""
    counts = np.round(np.column_stack([moves, met_on, 1.0 - met_on]), 3)
    distinct, place = np.unique(counts, axis=0, return_inverse=True)
    many = np.minimum(distinct[:, 1], distinct[:, 2]) >= _MANY
    ends = np.empty((len(distinct), 2))
    ends[many] = _by_log_odds(distinct[many])
    few = np.flatnonzero(~many)
    for first in range(0, len(few), _TOGETHER):
        chosen = few[first : first + _TOGETHER]
        ends[chosen] = _on_grid(distinct[chosen])
    low, high = ends[place.ravel()].T
    return low, high


def _by_log_odds(counts: np.ndarray) -> np.ndarray:
    """The log odds of π are log P(off → on) - log P(on → off), each with a Beta law."""
    off_off, off_on, on_off, on_on = counts[:, :4].T
    centre = digamma(off_on) - digamma(off_on + off_off) - digamma(on_off) + digamma(on_off + on_on)
    parts = ((off_on, off_off), (on_off, on_on))
    variance = sum(polygamma(1, hits) - polygamma(1, hits + misses) for hits, misses in parts)
    reach = _NORMAL * np.sqrt(np.maximum(variance, 0.0))
    return expit(np.stack([centre - reach, centre + reach], axis=1))


def _on_grid(counts: np.ndarray) -> np.ndarray:
    terms, possible = _grid()
    logs = np.where(possible, counts @ terms, -np.inf)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)).reshape(len(counts), len(_PI), len(_LAM)).sum(axis=2)
    share = np.cumsum(mass, axis=1) / mass.sum(axis=1, keepdims=True)
    rows, ends = np.arange(len(mass)), np.empty((len(mass), 2))
    for end, level in enumerate((_TAIL, 1 - _TAIL)):
        place = np.argmax(share >= level, axis=1)
        before = np.where(place > 0, share[rows, place - 1], 0.0)
        within = (level - before) / np.maximum(share[rows, place] - before, 1e-12)
        ends[:, end] = (place + np.clip(within, 0.0, 1.0)) / len(_PI)
    return ends


@lru_cache(maxsize=1)
def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the chance of each count at each point of the grid, and which points are chains."""
    pi, lam = (part.ravel() for part in np.meshgrid(_PI, _LAM, indexing="ij"))
    wake, sleep = pi * (1 - lam), (1 - pi) * (1 - lam)
    chances = np.clip(np.stack([1 - wake, wake, sleep, 1 - sleep, pi, 1 - pi]), 1e-12, 1.0)
    return np.log(chances), (wake < 1) & (sleep < 1)
