"""How much of the length of work is the client's own and how much is drawn anew, where some ends are not known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_ndtr
from scipy.stats import f as fisher

from turnout.workbench.diagnosis.findings.run_sums import PerClient

TURNS = 60  # of the estimate with unknown ends
MIN_REPEATS = 5  # pieces of work beyond the first of each client, for the two parts to be told apart
HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))
Pieces = Float[np.ndarray, " pieces"]


@dataclass(frozen=True)
class LengthParts:
    """log length = mean + the client's own deviation (standard deviation τ) + one drawn anew (σ)."""

    client: PerClient  # expected logarithm of each client's lengths: its own mean, drawn towards the fleet's
    between: float  # τ
    within: float  # σ
    p_value: float  # of τ = 0


def length_parts(
    client: Int[np.ndarray, " pieces"], log_length: Pieces, ended: Bool[np.ndarray, " pieces"], num_clients: int
) -> LengthParts:
    """Estimates by moments; of work without an end `log_length` is the least that it can be.

    Such work is taken at its expected length, given that it is longer, with the variance of that; estimates and
    expectations take turns until they agree. Without unknown ends one turn is enough.
    """
    expected, extra = log_length.astype(np.float64), np.zeros(len(log_length))
    found = _moments(client, expected, extra, num_clients)
    if ended.all():
        return found
    for _ in range(TURNS):
        spread = max(found.within, 1e-6)
        z = (log_length - found.client[client]) / spread
        hazard = np.exp(-0.5 * z**2 - HALF_LOG_2PI - log_ndtr(-z))
        expected = np.where(ended, log_length, found.client[client] + spread * hazard)
        extra = np.where(ended, 0.0, spread**2 * np.clip(1 + z * hazard - hazard**2, 0.0, 1.0))
        found = _moments(client, expected, extra, num_clients)
    return found


def _moments(client: np.ndarray, expected: Pieces, extra: Pieces, num_clients: int) -> LengthParts:
    """One-way analysis of variance with unequal numbers; `extra`: the variance of each expected value."""
    count = np.bincount(client, minlength=num_clients)
    seen = count > 0
    mean = np.bincount(client, expected, minlength=num_clients) / np.maximum(count, 1)
    repeats = int(len(expected) - seen.sum())
    squares = float(((expected - mean[client]) ** 2).sum() + extra.sum())
    if repeats < MIN_REPEATS or seen.sum() < 2:
        middle = float(expected.mean())
        return LengthParts(np.full(num_clients, middle), 0.0, float(np.sqrt(((expected - middle) ** 2).mean())), 1.0)
    within = max(squares / repeats, 1e-12)
    weight, middle, p_value = count / within, 0.0, 1.0
    groups = int(seen.sum())
    middle = float((weight * mean).sum() / weight.sum())
    distance = float((weight * (mean - middle) ** 2).sum())
    between = max(0.0, (distance - (groups - 1)) / float(weight.sum() - (weight**2).sum() / weight.sum()))
    p_value = float(fisher.sf(distance / (groups - 1), groups - 1, repeats))
    trust = np.where(seen, 1 / (between + within / np.maximum(count, 1)), 0.0)
    middle = float((trust * mean).sum() / trust.sum())
    kept = np.where(seen, between / (between + within / np.maximum(count, 1)), 0.0)
    return LengthParts(middle + kept * (mean - middle), float(np.sqrt(between)), float(np.sqrt(within)), p_value)
