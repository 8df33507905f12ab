"""Worlds in which clients differ in everything, and the clients of which docs/theory/time.md speaks."""

import numpy as np
from scipy.special import ndtr

from turnout.availability import two_classes


def clients_of_the_page():
    """100 clients with log-normal durations of 1 to 20 ticks; the second array says who is slow."""
    draws = np.random.default_rng(3).standard_normal(100)
    durations = np.clip(np.rint(5 * np.exp(0.9 * draws)), 1, 20).astype(int)
    return durations, durations >= 6


def two_classes_of_the_page():
    process = two_classes(100, shuffle=True)
    return np.asarray(process.stationary(), float), np.asarray(process.correlation(), float)


def lognormal_table(median, sigma, most):
    """P(D = j) of D = ceil(min(median exp(sigma Z), most)) - 1, a row per client."""
    median = np.asarray(median, float)[:, None]
    ticks = np.arange(1, most + 1)
    below = np.where(ticks >= most, 1.0, ndtr(np.log(ticks / median) / sigma))
    return np.diff(below, prepend=0.0, axis=1)


def random_world(seed, count, longest=20):
    """Rates, correlations and a table of durations; every third world has fixed ones."""
    draw = np.random.default_rng(seed)
    pi = draw.uniform(0.15, 0.95, count)
    lam = draw.uniform(0.0, 0.9, count) if seed % 2 else np.zeros(count)
    if seed % 3 == 0:
        table = np.eye(longest)[draw.integers(1, longest, count)]
    else:
        table = lognormal_table(np.exp(draw.uniform(0, np.log(longest / 2), count)), 0.6, longest)
    return pi, lam, table
