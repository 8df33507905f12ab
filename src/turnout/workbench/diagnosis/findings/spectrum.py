"""Spectra of a log: the power at a frequency, compared with that at neighbouring ones.

Autocorrelation makes a spectrum uneven but smooth, so a peak that stands out is a cycle, however persistent the clients
are.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Complex, Float
from scipy.stats import f as f_law
from scipy.stats import t as t_law

from turnout.workbench.diagnosis.findings.run_sums import PerClient, transform, watched_runs
from turnout.workbench.diagnosis.reading.log import Log

PerFrequency = Float[np.ndarray, " tried"]

NEIGHBOURS = 10  # frequencies on either side to compare with
MIN_FLEET_POWER = 1e-4  # of the whole fleet, relative to that of independent clients
NEIGHBOUR_OFFSETS = np.r_[-NEIGHBOURS:-2, 3 : NEIGHBOURS + 1]  # the cycle itself leaks into the nearest two


def power_test(log: Log, pi: PerClient, lam: PerClient, frequency: float, span: float, period: float) -> float:
    """p-value of the power at one frequency against its neighbours, in the whole fleet and pooled over clients."""
    others = neighbours_of(frequency, span, period)
    if len(others) < 4:
        return 1.0
    tried = np.array([frequency, *others])
    sums = np.stack([spectrum(log, pi, float(f)) for f in tried])
    pooled = (np.abs(sums) ** 2 * whitening(pi, lam, tried)).sum(axis=1)
    return p_value_beyond(tried, pooled, power_of_fleet(sums.T))


def power_of_fleet(sums: Complex[np.ndarray, "clients tried"]) -> PerFrequency:
    """Power of the number of clients present; 0 where a server takes the same number each time, but for rounding."""
    fleet, independent = np.abs(sums.sum(axis=0)) ** 2, (np.abs(sums) ** 2).sum(axis=0)
    return np.where(fleet.mean() > MIN_FLEET_POWER * independent.mean(), fleet, 0.0)


def whitening(pi: PerClient, lam: PerClient, frequency: PerFrequency) -> Float[np.ndarray, "tried clients"]:
    """One over the spectrum of each client's chain, so that all clients count the same at all frequencies."""
    lam = np.clip(lam, -0.98, 0.98)
    variance = np.nan_to_num(pi * (1 - pi))
    inverse = np.where(variance > 0, 1 / np.maximum(variance * (1 - lam**2), 1e-12), 0.0)
    return (1 - 2 * lam * np.cos(2 * np.pi * frequency)[:, None] + lam**2) * inverse


def neighbours_of(frequency: float, span: float, period: float) -> list[float]:
    """Frequencies one resolution apart, away from zero and from the harmonics of the cycle."""
    steps = NEIGHBOUR_OFFSETS if span / period > 6 else np.array([-2.5, -1.75, -1.0, 1.0, 1.75, 2.5])
    frequencies = frequency + steps / span
    away = np.abs(frequencies * period - np.round(frequencies * period)) * span / period
    return [float(f) for f, far in zip(frequencies, away, strict=True) if 0.75 / span < f < 0.5 and far > 0.9]


def spectrum(log: Log, pi: PerClient, frequency: float) -> Complex[np.ndarray, " clients"]:
    """Fourier sums of each client's presence minus its mean."""
    count = log.num_clients
    presence = transform(log.present, frequency, log.num_slots, count)
    return presence - np.nan_to_num(pi) * transform(watched_runs(log), frequency, log.num_slots, count)


def p_value_beyond(frequency: PerFrequency, pooled: PerFrequency, fleet: PerFrequency) -> float:
    """p-value of the power at the first frequency against the others.

    The pooled power of many clients has a narrow law on a log scale; it is compared with a straight line through its
    neighbours (t-test of a new point). The power of the whole fleet, with the same slope removed, is exponential.
    """
    if not (pooled > 0).all():
        return 1.0
    x, y = np.log(frequency[1:]), np.log(pooled[1:])
    slope = 0.0 if np.ptp(x) == 0 else float(np.polyfit(x, y, 1)[0])
    level, where = y.mean(), x.mean()
    freedom = len(x) - 2
    spread = np.sqrt(((y - level - slope * (x - where)) ** 2).sum() / freedom)
    ahead = np.log(frequency[0]) - where
    error = spread * np.sqrt(1 + 1 / len(x) + ahead**2 / ((x - where) ** 2).sum())
    by_clients = float(t_law.sf((np.log(pooled[0]) - level - slope * ahead) / max(error, 1e-12), freedom))
    white = fleet / frequency**slope
    background = white[1:].mean()
    by_fleet = 1.0 if background <= 0 else float(f_law.sf(white[0] / background, 2, 2 * len(x)))
    return min(1.0, 2 * min(by_clients, by_fleet))


def typical_span(log: Log) -> float:
    """Length over which a typical client is watched: it sets the resolution of frequencies."""
    if log.watched is None:
        return float(log.num_slots)
    begin = np.full(log.num_clients, log.num_slots)
    end = np.zeros(log.num_clients, np.int64)
    np.minimum.at(begin, log.watched.client, log.watched.first)
    np.maximum.at(end, log.watched.client, log.watched.end)
    length = np.maximum(end - begin, 0)
    # By slots rather than by clients: those watched for long carry the evidence.
    order = np.argsort(length)
    weight = np.cumsum(length[order])
    return float(length[order][np.searchsorted(weight, weight[-1] / 2)]) if weight[-1] > 0 else 0.0
