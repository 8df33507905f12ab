"""Differences paired by seed, and what they leave beyond doubt."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import stats

from turnout.reproduction.findings import Verdict

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over the seeds and where it lies."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: np.ndarray) -> Interval:
        middle, count = mean(values), values.size
        if count < 2:
            return cls(middle, middle, middle, count)
        half = float(stats.t.ppf(0.5 + LEVEL / 2, count - 1) * values.std(ddof=1) / np.sqrt(count))
        return cls(middle, middle - half, middle + half, count)

    @property
    def standard_error(self) -> float:
        if self.count < 2:
            return 0.0
        return (self.high - self.mean) / float(stats.t.ppf(0.5 + LEVEL / 2, self.count - 1))


def verdict_of_lead(lead: np.ndarray) -> Verdict:
    """Whether a lead is one: by its interval, or by every seed where some are infinite or there is one only."""
    if lead.size < 2 or not np.isfinite(lead).all():
        return "holds" if bool((lead > 0).all()) else "does not hold" if bool((lead <= 0).all()) else "undecided"
    found = Interval.of(lead)
    return "holds" if found.low > 0 else "does not hold" if found.high < 0 else "undecided"


def in_order(values: list[np.ndarray], rising: bool, slack: float) -> bool:
    """Whether no step goes back beyond the slack and noise, and the whole goes forth."""
    if not values[0].size:
        return False
    sign = 1 if rising else -1
    steps = [Interval.of(sign * minus(b, a)) for a, b in itertools.pairwise(values)]
    forth = mean(sign * minus(values[-1], values[0])) > 0
    return forth and all(step.mean >= -slack - 2 * step.standard_error for step in steps)


def minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Differences; two that never got there are alike."""
    both = np.isinf(a) & np.isinf(b) & (np.sign(a) == np.sign(b))
    return np.subtract(a, b, out=np.zeros_like(a), where=~both)


def mean(values: np.ndarray) -> float:
    """A mean that infinities of both signs do not spoil."""
    return float(np.clip(values, -1e12, 1e12).mean())


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Kendall's τ; infinite values are ranks like any other."""
    return float(np.asarray(stats.kendalltau(stats.rankdata(a), stats.rankdata(b)))[0])
