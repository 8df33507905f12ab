"""How long clients stay away, with tails as heavy as those of the fleet: what the end of a log may look like by chance.

Real absences have heavier tails than those of chains. Their law is taken to be that of Lomax, with

    P(length > x) = (1 + ξ x / σ)^(-1 / ξ),

a geometric one in continuous time at ξ = 0, and Pareto's with tail index 1 / ξ far out. The scale σ is the client's
own. So is ξ, with a prior that the fleet gives: clients of a fleet have similar tails, and few show them alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from turnout.statistics import evenly
from turnout.workbench.diagnosis.findings.run_sums import PerClient, own_time
from turnout.workbench.diagnosis.reading.log import Log, Runs

Counts = Int[np.ndarray, " clients"]
Histogram = Float[np.ndarray, "clients bins"]  # number of absences by length

TAILS = np.array([1e-3, 0.2, 0.4, 0.55, 0.7, 0.8, 0.88, 0.95])  # ξ; at 1 a fleet would be away for ever
SCALES = 24  # of absences that are tried, from one slot to the length of the log
BINS = 48
MOST_SAMPLED = 1000  # clients that tell the prior
MIN_ABSENCES = 5  # of a client, for it to tell of the tail
LEAST_PRIOR = 0.001  # of each ξ, as a log shows no absence that is longer than itself
STEPS = 50  # of the iteration for the prior


@dataclass(frozen=True)
class Absences:
    """The completed absences of each client, between two presences, in its own watched time."""

    client: Int[np.ndarray, " absences"]
    length: Int[np.ndarray, " absences"]
    longest: Counts  # of each client, 0 if none was completed


def absences(log: Log) -> Absences:
    """All stretches between two presences of a client; time in which it was not watched is left out."""
    present, _ = own_time(log)
    length = present.first[1:].astype(np.int64) - present.end[:-1]
    inner = (present.client[1:] == present.client[:-1]) & (length > 0)
    client, length = present.client[1:][inner].astype(np.int64), length[inner]
    longest = np.zeros(log.num_clients, np.int64)
    np.maximum.at(longest, client, length)
    return Absences(client, length, longest)


def chance_of_absence(log: Log, inner: Absences, asked: Int[np.ndarray, " asked"], absent: Counts) -> PerClient:
    """Probability, for the clients that are asked about, to be away at a given time since at least so many slots.

    A stationary client is away with probability 1 - π, and then since x slots or more with that of ∫_x^∞ P(length > y)
    dy over the mean length, (1 + ξ x / σ)^(1 - 1/ξ): long absences are more likely to be met than short ones. It is 1
    for all others.
    """
    edges = np.unique(np.round(np.geomspace(1, log.num_slots + 1, BINS)).astype(np.int64))
    bins = np.searchsorted(edges, inner.length, side="right") - 1
    fewest = np.bincount(inner.client, minlength=log.num_clients)
    telling = np.flatnonzero(fewest >= MIN_ABSENCES)
    scales = np.geomspace(0.5, max(log.num_slots, 2), SCALES)
    law = _log_law(edges, scales)
    prior = _prior(_likelihood(_histogram(inner, bins, telling[evenly(len(telling), MOST_SAMPLED)], len(edges)), law))
    chance = np.ones(log.num_clients)
    away = _away_in_between(own_time(log)[0], log.num_clients)
    for part in np.array_split(asked, max(1, len(asked) // 2000)):
        likelihood = _likelihood(_histogram(inner, bins, part, len(edges)), law)
        weight = likelihood * prior[:, None]
        weight /= weight.sum(axis=(1, 2), keepdims=True)
        beyond = _still_away(absent[part], scales)
        chance[part] = (weight * beyond).sum(axis=(1, 2)) * away[part]
    return chance


def _away_in_between(present: Runs, count: int) -> PerClient:
    """Share of the time from a client's first presence to its last in which it was away; at least one slot of it."""
    on = np.bincount(present.client, present.length, minlength=count)
    first, end = np.zeros(count), np.zeros(count)
    end[present.client] = present.end
    first[present.client[::-1]] = present.first[::-1]
    span = np.maximum(end - first, 1)
    return np.maximum(span - on, 1) / (span + 1)


def _histogram(inner: Absences, bins: Int[np.ndarray, " absences"], chosen: Counts, count: int) -> Histogram:
    place = np.full(int(max(inner.client.max(initial=-1), chosen.max(initial=-1))) + 1, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    row = place[inner.client]
    kept = row >= 0
    return np.bincount(row[kept] * count + bins[kept], minlength=len(chosen) * count).reshape(len(chosen), count) * 1.0


def _log_law(
    edges: Int[np.ndarray, " bins"], scales: Float[np.ndarray, " scales"]
) -> Float[np.ndarray, "tails scales bins"]:
    """Logarithm of the probability of each bin, for all ξ and σ; an absence of n slots is one between n - 1 and n."""
    low = edges - 1.0
    tail, scale = TAILS[:, None, None], scales[None, :, None]
    alive = (1 + tail * low / scale) ** (-1 / tail)
    beyond = np.concatenate([alive[:, :, 1:], np.zeros((*alive.shape[:2], 1))], axis=2)
    return np.log(np.maximum(alive - beyond, 1e-300))


def _likelihood(
    seen: Histogram, law: Float[np.ndarray, "tails scales bins"]
) -> Float[np.ndarray, "clients tails scales"]:
    """Of each client's absences, up to a factor of its own; all scales are as likely."""
    log_likelihood = np.einsum("kb,tsb->kts", seen, law, optimize=True)
    return np.exp(log_likelihood - log_likelihood.max(axis=(1, 2), keepdims=True))


def _prior(likelihood: Float[np.ndarray, "clients tails scales"]) -> Float[np.ndarray, " tails"]:
    """The law of ξ in the fleet that makes its absences likeliest, by expectation and maximisation."""
    prior = np.full(len(TAILS), 1 / len(TAILS))
    of_tail = likelihood.sum(axis=2)
    for _ in range(STEPS if len(of_tail) else 0):
        share = of_tail * prior
        prior = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return LEAST_PRIOR + (1 - LEAST_PRIOR * len(TAILS)) * prior


def _still_away(absent: Counts, scales: Float[np.ndarray, " scales"]) -> Float[np.ndarray, "clients tails scales"]:
    tail, scale = TAILS[None, :, None], scales[None, None, :]
    return (1 + tail * absent[:, None, None] / scale) ** (1 - 1 / tail)
