"""A buffer that is emptied with a step as soon as it holds K updates: how often, and how many steps in W ticks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc
from scipy.stats import poisson

MOST_TICKS = 100_000  # between two steps that are summed one by one; beyond, a tick is as good as no time
MOST_FOLLOWED = 300  # ticks in which the level of the buffer is followed; beyond, steps come evenly


@dataclass(frozen=True)
class Supply:
    """Arrivals: in a tick Binomial(sources, rate / sources); infinitely many sources make it Poisson."""

    rate: float
    sources: float

    def reaches(self, most: np.ndarray | int, ticks: np.ndarray | int, less: int = 0) -> np.ndarray:
        """P(at most so many arrivals in these ticks), with `less` draws fewer; draws need not be whole in number."""
        if not np.isfinite(self.sources):
            return np.asarray(poisson.cdf(most, np.asarray(ticks) * self.rate))
        draws = np.maximum(np.asarray(ticks) * self.sources - less, 0)
        chance = min(self.rate / self.sources, 1.0)
        inside = betainc(np.maximum(draws - most, 1e-9), np.asarray(most) + 1.0, 1 - chance)
        return np.where(draws <= most, 1.0, inside)

    def without_one(self) -> Supply:
        """The arrivals of the others, if all are alike."""
        if self.sources <= 1:
            return Supply(0.0, 1.0)
        others = self.sources - 1
        return Supply(self.rate * others / self.sources, max(others, self.rate * others / self.sources))


def filling(size: int, stream: Supply) -> tuple[float, float]:
    """Ticks per step, and mean ticks that an update waits in the buffer.

    With S_j the arrivals of j ticks: Σ_j P(S_j < K), and Σ_j E[S_j; S_j < K] / (rate × ticks per step).
    """
    longest = (size + 12 * np.sqrt(size) + 30) / stream.rate
    if longest > MOST_TICKS:
        return size / stream.rate, (size - 1) / (2 * stream.rate)
    ticks = np.arange(int(np.ceil(longest)) + 2)
    per_step = float(stream.reaches(size - 1, ticks).sum())
    if size == 1:
        return per_step, 0.0
    # E[S; S < K] = E S · P(one draw fewer < K - 1)
    waiting = (ticks * stream.rate * stream.reaches(size - 2, ticks, less=1)).sum()
    return per_step, float(waiting / (stream.rate * per_step))


@dataclass(frozen=True)
class StepsInTicks:
    """Steps of the server in 0, 1, … ticks: of one that has just stepped, and of one at a random moment."""

    discount: np.ndarray  # E s(steps), rows: just stepped, random moment
    steps: np.ndarray  # their mean number


def steps_in_ticks(size: int, stream: Supply, exponent: float, longest: int) -> StepsInTicks:
    """The level of the buffer is a chain, j -> j + arrivals, and back to 0 with a step as soon as it is at K."""
    if stream.rate <= 0:
        return StepsInTicks(np.ones((2, longest + 1)), np.zeros((2, longest + 1)))
    per_level = np.diff(stream.reaches(np.arange(size), 1), prepend=0.0)
    moves = np.stack([np.concatenate([np.zeros(j), per_level[: size - j]]) for j in range(size)])
    steps = np.maximum(1 - moves.sum(axis=1), 0.0)
    level = _long_run(moves, steps)
    followed = min(longest, MOST_FOLLOWED)
    numbers = np.arange(followed + 1)
    trust = (1.0 + numbers) ** -exponent
    found, mean = np.empty((2, longest + 1)), np.empty((2, longest + 1))
    for row, start in enumerate((np.eye(size)[0], level)):
        joint = np.zeros((followed + 1, size))  # of the number of steps and the level
        joint[0] = start
        for w in numbers:
            by_number = joint.sum(axis=1)
            found[row, w], mean[row, w] = by_number @ trust, by_number @ numbers
            stepped = joint @ steps
            joint = joint @ moves
            joint[1:, 0] += stepped[:-1]
        beyond = np.arange(1, longest - followed + 1)
        mean[row, followed + 1 :] = mean[row, followed] + float(level @ steps) * beyond
        found[row, followed + 1 :] = (1 + mean[row, followed + 1 :]) ** -exponent
    return StepsInTicks(found, mean)


def _long_run(moves: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The law of the level at a random moment."""
    size = steps.size
    chain = moves.copy()
    chain[:, 0] += steps
    balance = np.vstack([chain.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(balance, np.append(np.zeros(size), 1.0), rcond=None)[0]
