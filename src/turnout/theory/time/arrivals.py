"""What a pace makes of the clients in the long run, and the weights that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.declarations import checked
from turnout.declarations.arrays import Values, law, nonnegative


@dataclass(frozen=True)
class UsedUpdates:
    """Updates that the server uses, one number per client where nothing else is said."""

    rates: np.ndarray  # a_k, used updates per tick
    ticks_per_step: float
    work: np.ndarray  # E W_k, ticks from start to arrival
    age: np.ndarray  # mean versions from start to use
    discount: np.ndarray  # E s(age), s(age) = (1 + age)^-exponent
    doubts: tuple[str, ...]  # why these numbers may miss by more than the page on time says; mostly empty

    @property
    def shares(self) -> np.ndarray:
        """Share of the used updates that comes from each client."""
        return self.rates / self.rates.sum()


@dataclass(frozen=True)
class BufferedArrivals(UsedUpdates):
    """Of a server that steps as soon as enough have come."""

    hazard: np.ndarray  # probability per tick that an idle client that is there is asked
    buffer_wait: float  # mean ticks that an update waits in the buffer
    at_work: float  # mean number of clients at work
    cycle_variance: np.ndarray  # of the ticks between two used updates; NaN where it is not known
    work_second: np.ndarray  # E W_k²


@dataclass(frozen=True)
class RoundArrivals(UsedUpdates):
    """Of a server that asks everybody who is there, and closes the round at a quorum or a deadline."""

    asked: np.ndarray  # probability that a round asks the client
    counted: np.ndarray  # probability that its answer comes before the round closes
    averaged: np.ndarray  # mean of 1 / (answers in the step) over its used updates, for servers that average


@checked
def effective_in_time(arrivals: UsedUpdates, coefficients: Values, average: bool = False) -> np.ndarray:
    """Effective weights Ω_k ∝ c_k a_k E s(age_k), where an update of client k enters a step with coefficient c_k.

    The server divides a step by a constant, as FedBuff does. With `average` it divides by the number of answers in the
    step, as FedAvg does in rounds: then a client that answers in small company counts for more. Only rounds know it.
    """
    factors = arrivals.rates * arrivals.discount * nonnegative("coefficients", coefficients, arrivals.rates.size)
    if average:
        if not isinstance(arrivals, RoundArrivals):
            raise ValueError("average = True: only the answers of rounds are counted; a buffer divides by its size")
        factors = factors * arrivals.averaged
    return law("coefficients × rates × discount", factors)


@checked
def unbiased_coefficients(arrivals: UsedUpdates, target: Values) -> np.ndarray:
    """The coefficients α_k / (a_k E s(age_k)), with mean 1, that make the effective weights the target.

    A client with a target whose updates are never used is refused: no coefficient makes up for that.
    """
    alpha = law("target", target, arrivals.rates.size)
    heard = arrivals.rates * arrivals.discount
    _refuse_unheard(alpha, arrivals.rates)
    found = np.divide(alpha, heard, out=np.zeros_like(alpha), where=heard > 0)
    return found / found.mean()


@checked
def weighing_efficiency(arrivals: UsedUpdates, target: Values) -> float:
    """Share of the updates that is left if each is weighed by α_k / a_k: 1 / (1 + χ²(α ‖ shares)).

    The noise per tick of a server with these weights is that of this share of its updates, all weighed alike and
    coming by the target.
    """
    alpha = law("target", target, arrivals.rates.size)
    _refuse_unheard(alpha, arrivals.rates)
    square = np.divide(alpha**2, arrivals.shares, out=np.zeros_like(alpha), where=alpha > 0)
    return float(1 / square.sum())


def _refuse_unheard(alpha: np.ndarray, rates: np.ndarray) -> None:
    unheard = (alpha > 0) & (rates <= 0)
    if unheard.any():
        raise ValueError(
            f"{int(unheard.sum())} clients with {alpha[unheard].sum():.0%} of the target are never heard: "
            "no weight mends that; keep late answers, wait for more, or use a buffer"
        )
