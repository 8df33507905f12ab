"""When a round closes: clients end independently of each other, and a quorum or a deadline decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

LEAST_CHANCE = 1e-300
LEAST_VARIANCE = 1e-9
NEARLY_FIXED = 0.25  # variance of the number asked below which that number hardly changes


@dataclass(frozen=True)
class RoundClosing:
    """Column t - 1 is about closing within t ticks; rows are clients."""

    interval: np.ndarray  # P(T = t)
    without: np.ndarray  # P(closed within t), if the client was asked and has not ended
    joined: np.ndarray  # P(closed within t), if the client was asked and has ended
    answers: np.ndarray  # mean number of answers in a round that closes at t


def closing(asked: np.ndarray, ended: np.ndarray, quorum: float, deadline: int | None) -> RoundClosing:
    """`asked` has the probability that a round asks a client, `ended` that its work has ended within 1, 2, … ticks."""
    closed, without, joined, answers = (_all if quorum >= 1 else _quorum)(asked, ended, quorum)
    last = ended.shape[1] if deadline is None else min(deadline, ended.shape[1])
    closed[last - 1 :] = 1.0
    without[:, last - 1 :] = 1.0
    joined[:, last - 1 :] = 1.0
    if quorum < 1 and last < ended.shape[1]:
        answers[last - 1] = max(float(asked @ ended[:, last - 1]), 1.0)
    interval = np.diff(np.maximum.accumulate(closed), prepend=0.0)
    joined = np.maximum.accumulate(np.maximum(joined, without), axis=1)
    return RoundClosing(interval, without, joined, answers)


def _all(asked: np.ndarray, ended: np.ndarray, quorum: float) -> tuple[np.ndarray, ...]:
    """All that were asked must have ended: a product over clients."""
    logs = np.log(np.maximum(1 - asked[:, None] * (1 - ended), LEAST_CHANCE))
    total = logs.sum(axis=0)
    return np.exp(total), np.zeros_like(ended), np.exp(total - logs), np.maximum(asked @ ended, 1.0)


def _quorum(asked: np.ndarray, ended: np.ndarray, quorum: float) -> tuple[np.ndarray, ...]:
    """Closed by t as soon as Σ_j Y_j(t) >= 0, Y_j = 1{asked} (1{ended by t} − q): about normal."""
    chance = asked[:, None]
    means = chance * (ended - quorum)
    variances = chance * (ended * (1 - quorum) ** 2 + (1 - ended) * quorum**2) - means**2
    mean, variance = means.sum(axis=0), np.maximum(variances.sum(axis=0), LEAST_VARIANCE)
    # The sum moves in steps of 1 where the number asked is nearly fixed, else in finer ones.
    half = 0.5 if float((asked * (1 - asked)).sum()) < NEARLY_FIXED else 0.25
    others, spread = mean - means, np.sqrt(np.maximum(variance - variances, LEAST_VARIANCE))
    covariance = (chance * ended * (1 - quorum) - chance**2 * ended * (ended - quorum)).sum(axis=0)
    beyond = np.maximum(0.5 * np.diff(mean, prepend=-quorum * asked.sum()), 0.25)  # of the quorum, when it closes
    answers = np.maximum(asked @ ended - covariance / variance * (mean - beyond), 1.0)
    return (
        ndtr((mean + half) / np.sqrt(variance)),
        ndtr((others - quorum + half) / spread),
        ndtr((others + 1 - quorum + half) / spread),
        answers,
    )
