"""LastWord written out from its page, in numpy: which update counts how much in which step."""

from typing import NamedTuple

import numpy as np

from nights import usual_share

PARTS = ("plain", "blend", "all", "news")


class Played(NamedTuple):
    """Steps in units of the learning rates, and what every update counts in every step."""

    steps: np.ndarray  # f φ τ̄ by round
    shares: np.ndarray  # of step t, client k, update of round l; they add up to 1 once everybody has been heard


def play(came, work, target, fading=0.5, rule="news") -> Played:
    """The decisions of LastWord where `came` and `work` have one row per round; every upload arrives."""
    parts = PARTS[: PARTS.index(rule) + 1]
    rounds, count = came.shape
    alpha = np.asarray(target, np.float64) / np.sum(target)
    words, heard, last_work = np.zeros((count, rounds)), np.full(count, -1), np.zeros(count)
    usual, arrivals = 0.0, []
    steps, shares = np.zeros(rounds), np.zeros((rounds, count, rounds))
    for t in range(rounds):
        for k in np.flatnonzero(came[t]):
            theta = min(1.0, work[t, k] / usual) if "blend" in parts and heard[k] >= 0 else 1.0
            words[k] *= 1 - theta
            words[k, t] += theta
            heard[k], last_work[k] = t, work[t, k]
        weight = np.where(heard < 0, 0.0, alpha * (heard + 1.0) ** fading)
        usual = weight @ last_work / weight.sum() if weight.any() else 0.0
        mass = (t + 1.0) ** fading if "all" in parts else weight.sum()
        share = alpha @ came[t]
        arrivals += [share] if share > 0 else []
        news = 2 * share / (share + usual_share(arrivals)) if share > 0 else 0.0
        steps[t] = usual * (news if "news" in parts else 1.0) * (weight.sum() / mass if (heard >= 0).all() else 1.0)
        shares[t] = words * (weight / (weight.sum() if (heard >= 0).all() else max(mass, 1e-300)))[:, None]
    return Played(steps, shares)


def older(shares) -> np.ndarray:
    """P[t, i]: the share of step t that was computed before step i was taken."""
    return np.tril(np.cumsum(shares.sum(axis=1), axis=1), -1)


def lags(steps, shares) -> tuple[np.ndarray, float]:
    """Γ_t of every round, and the largest of all sums over earlier and over later steps."""
    root = np.sqrt(older(shares))
    behind = root @ steps
    return behind, float(max(behind.max(), (steps @ root).max()))
