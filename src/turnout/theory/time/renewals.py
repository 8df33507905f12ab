"""Steps that come one after the other, with independent intervals of one law: how many fall into a given time."""

from __future__ import annotations

import numpy as np
from scipy.signal import fftconvolve, lfilter

NEGLIGIBLE = 1e-10


def counted_steps(interval: np.ndarray, longest: int) -> np.ndarray:
    """U(w) = 1 + Σ_i P(T_1 + … + T_i < w), w = 1 … longest; `interval` has P(T = 1), P(T = 2), …."""
    impulse = np.zeros(longest)
    impulse[0] = 1.0
    density = lfilter([1.0], np.concatenate([[1.0], -_trimmed(interval)]), impulse)
    return np.cumsum(density)


def mean_over_steps(interval: np.ndarray, first: np.ndarray, law: np.ndarray, values: np.ndarray) -> np.ndarray:
    """E values[number of steps in W + 1 ticks, its last one not counted], a row of `first` and of `law` per client.

    `first` has P(1), P(2), … of the ticks to the first step, `law` P(W = 0), P(W = 1), …. The last value stands for all
    larger numbers.
    """
    longest = law.shape[1]
    step = np.concatenate([[0.0], _trimmed(interval)])
    at, before, later = np.eye(1, longest)[0], np.ones(longest), np.zeros(longest)
    for value in values[1:]:
        at = np.maximum(fftconvolve(at, step)[:longest], 0.0)
        reached = np.minimum(np.cumsum(at), before)  # P(one step more in w - 1 ticks), w = 1, 2, …
        later += value * (before - reached)
        before = reached
        if before[-1] < NEGLIGIBLE:
            break
    later += before * values[-1]
    # later[x - 1] is the mean if x ticks are left after the first step.
    first = _fitted(first, longest)
    after_first = np.pad(fftconvolve(first, later[None], axes=1)[:, : longest - 1], ((0, 0), (1, 0)))
    not_yet = 1 - np.pad(first[:, :-1].cumsum(axis=1), ((0, 0), (1, 0)))
    return (law * (after_first + values[0] * not_yet)).sum(axis=1)


def _fitted(law: np.ndarray, columns: int) -> np.ndarray:
    return np.pad(law, ((0, 0), (0, max(columns - law.shape[1], 0))))[:, :columns]


def after_geometric(interval: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """P(1), P(2), … of the ticks to the next step, from G ticks after a step, G geometric with a rate per client."""
    longest = interval.size
    density = np.diff(counted_steps(interval, longest), prepend=0.0)  # P(a step in tick m), m = 0, 1, …
    stays = (1 - rate[:, None]) ** np.arange(longest)
    # Column a: P(the last step was a ticks ago, and the interval lasts) / P(T > a).
    started = np.empty((rate.size, longest))
    started[:, 1:] = rate[:, None] * stays[:, :-1] * (stays @ density)[:, None]
    started[:, 0] = rate * (stays[:, :-1] @ density[1:])
    return np.maximum(fftconvolve(started[:, ::-1], interval[None], axes=1)[:, longest - 1 :], 0.0)


def from_random_moment(interval: np.ndarray) -> np.ndarray:
    """P(R = 1), P(R = 2), …, R the ticks from a random tick inside an interval to its end, that tick included."""
    longer = interval[::-1].cumsum()[::-1]
    return longer / longer.sum()


def powers(lam: np.ndarray, ticks: int) -> np.ndarray:
    """λ^1, λ^2, …, so many columns, a row per client."""
    return np.cumprod(np.broadcast_to(lam[:, None], (lam.size, ticks)), axis=1)


def _trimmed(interval: np.ndarray) -> np.ndarray:
    kept = np.flatnonzero(interval > 1e-15)
    return interval[: int(kept[-1]) + 1]
