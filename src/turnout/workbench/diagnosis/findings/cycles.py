"""Daily and weekly cycles, or a cycle of any length where there is no clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import f as f_law

from turnout.availability.recorded.time_slots import DAY
from turnout.workbench.diagnosis.findings.rates import Rates, discoveries
from turnout.workbench.diagnosis.findings.run_sums import PerClient, PerSlot, excess_of, sample, select
from turnout.workbench.diagnosis.findings.spectrum import (
    NEIGHBOUR_OFFSETS,
    NEIGHBOURS,
    PerFrequency,
    neighbours_of,
    p_value_beyond,
    power_of_fleet,
    power_test,
    spectrum,
    typical_span,
    whitening,
)
from turnout.workbench.diagnosis.reading.log import Log

HARMONICS = 3
MIN_CYCLES = 3  # in the log, for a length to be distinguished from its neighbours
MAX_RUNS = 1_000_000  # in the sample of clients whose spectra are pooled
MAX_CELLS = 20_000_000
PROFILE_BINS = 24
MAX_P_VALUE = 1e-3  # below it, a cycle is reported as found


@dataclass(frozen=True)
class Cycle:
    """One cycle: its significance, its strength and its peak."""

    name: str  # "daily", "weekly" or "unnamed"
    period: float  # in slots
    p_value: float
    variance_share: float  # share of the variance of the fleet's activity that the cycle explains
    client_share: float  # the same for single clients, on average
    amplitude: float  # half the difference between the largest and the least share of the fleet present
    peak: float  # hours after midnight (weekly: Monday's if dated, else that before slot 0); without a clock, slots
    profile: Float[np.ndarray, " bins"]  # share of the fleet present, in equal parts of the cycle from its zero on
    client_peak: PerClient  # each client's own peak, in the units of `peak`; NaN where unclear
    client_amplitude: PerClient  # of each client's first harmonic, shrunk by the share of its power that is noise
    client_p_value: PerClient  # of no cycle
    cyclic: Bool[np.ndarray, " clients"]  # clients that follow the cycle, at a false discovery rate of 5 %

    @property
    def found(self) -> bool:
        """Whether the cycle is significant."""
        return self.p_value < MAX_P_VALUE


@dataclass(frozen=True)
class Cycles:
    """The cycles that were tested: with a clock a day and a week, without one any length."""

    daily: Cycle | None  # None: no clock, or the log is too short
    weekly: Cycle | None
    unnamed: Cycle | None  # the strongest of any length; None: there is a clock, or no spectrum to search

    @property
    def tested(self) -> list[Cycle]:
        return [cycle for cycle in (self.daily, self.weekly, self.unnamed) if cycle is not None]

    @property
    def found(self) -> list[Cycle]:
        """The significant cycles."""
        return [cycle for cycle in self.tested if cycle.found]

    @property
    def window(self) -> int | None:
        """Slots of the longest cycle, in which all others are over, too; None if there is no cycle."""
        return max((round(cycle.period) for cycle in self.found), default=None)


def cycles(log: Log, rates: Rates) -> Cycles:
    """Look for cycles in the fleet as a whole and in its clients, whatever their phases."""
    if log.slot_seconds is None:
        return Cycles(None, None, _search(log, rates))
    day = DAY / log.slot_seconds
    return Cycles(_of_length(log, rates, "daily", day), _of_length(log, rates, "weekly", 7 * day), None)


def hours_of_cycle(log: Log, cycles: Cycles) -> tuple[Int[np.ndarray, " slots"], int | None]:
    """The place of each slot in the longest cycle, and its length in slots; without a cycle all places are 0.

    With a clock, a log of two days that is too short to show a daily cycle is taken to have one.
    """
    period = max((cycle.period for cycle in cycles.found), default=None)
    if period is None and log.slot_seconds is not None and cycles.daily is None:
        period = DAY / log.slot_seconds
    if period is None or round(period) < 2 or log.num_slots < 2 * period:
        return np.zeros(log.num_slots, np.int64), None
    places = np.arange(log.num_slots) * (round(period) / period)  # exact where the period is a whole number of slots
    return np.mod(places, round(period)).astype(np.int64), round(period)


def _of_length(log: Log, rates: Rates, name: str, period: float) -> Cycle | None:
    """A cycle of given length, if the log is long enough for it."""
    span = typical_span(log)
    if span < MIN_CYCLES * period or period < 4:
        return None
    chosen = _sample_runs(log)
    part, pi, lam = select(log, chosen), rates.pi[chosen], rates.lam[chosen]
    tried = [h / period for h in range(1, HARMONICS + 1) if h / period < 0.4]
    p_value = min(len(tried) * power_test(part, pi, lam, frequency, span, period) for frequency in tried)
    return describe(log, rates, name, period, min(p_value, 1.0))


def _sample_runs(log: Log) -> Int[np.ndarray, " selected"]:
    """Clients spread over the fleet, such that their runs are within bounds."""
    mean = max(1.0, len(log.present.client) / max(log.num_clients, 1))
    return sample(log, log.num_slots * log.num_clients, max(2, int(MAX_RUNS / mean)))


def _search(log: Log, rates: Rates) -> Cycle | None:
    """The length at which the spectrum stands out most, each Fourier frequency compared with its neighbours."""
    chosen = sample(log, MAX_CELLS, 1000)
    part, pi = select(log, chosen), np.nan_to_num(rates.pi[chosen])
    centred = (part.matrix() - pi[:, None]) * part.watched_matrix()
    transformed = np.fft.rfft(centred.astype(np.float32), axis=1)
    slots = log.num_slots
    inverse = whitening(pi, rates.lam[chosen], np.arange(transformed.shape[1]) / slots)
    pooled = np.einsum("kf,fk->f", np.abs(transformed) ** 2, inverse)
    fleet = power_of_fleet(transformed)
    tried = np.arange(MIN_CYCLES, int(0.34 * slots))  # down to three slots
    if len(tried) < 2 * NEIGHBOURS or not (pooled[1:] > 0).all():
        return None
    p_value = np.ones(len(tried))
    for place, j in enumerate(tried):
        neighbours = j + NEIGHBOUR_OFFSETS[(j + NEIGHBOUR_OFFSETS >= 1) & (j + NEIGHBOUR_OFFSETS < len(pooled))]
        rows = np.r_[j, neighbours]
        p_value[place] = p_value_beyond(rows / slots, pooled[rows].astype(np.float64), fleet[rows].astype(np.float64))
    best = _fundamental(tried, p_value)
    period = _refine(part, pi, slots / tried[best], slots)
    return describe(log, rates, "unnamed", period, min(1.0, float(p_value[best]) * len(tried)))


def _fundamental(tried: Int[np.ndarray, " tried"], p_value: PerFrequency) -> int:
    """The most significant frequency, or the one of which it is a harmonic, if that is significant too."""
    best = int(np.argmin(p_value))
    for harmonic in range(HARMONICS, 1, -1):
        near = np.flatnonzero(np.abs(tried - tried[best] / harmonic) <= 1)
        if len(near) and p_value[near].min() * len(tried) < MAX_P_VALUE:
            return int(near[np.argmin(p_value[near])])
    return best


def _refine(log: Log, pi: PerClient, period: float, slots: int) -> float:
    """The length near this one with the most pooled power, rounded to whole slots if that is as good."""
    fine = 1 / period + np.linspace(-1, 1, 41) / slots
    power = [float((np.abs(spectrum(log, pi, f)) ** 2).sum()) for f in fine]
    best = 1 / fine[int(np.argmax(power))]
    rounded = float(np.round(best))
    return rounded if abs(1 / rounded - 1 / best) < 0.25 / slots else float(best)


def describe(log: Log, rates: Rates, name: str, period: float, p_value: float) -> Cycle:
    """Strength and peak of a cycle of given length, of the fleet and of each client."""
    phase = np.mod((np.arange(log.num_slots) + log.slots_since_midnight + 0.5) / period, 1.0)
    excess, watched = excess_of(log, rates.pi)
    design = harmonics(phase, HARMONICS)
    fitted = weighted_fit(design, excess, watched)
    residual = weighted_mean((excess - design @ fitted) ** 2, watched)
    total = weighted_mean(excess**2, watched)
    smooth = harmonics((np.arange(720) + 0.5) / 720, HARMONICS) @ fitted
    unit = period * log.slot_hours
    neighbours = neighbours_of(1 / period, typical_span(log), period) if p_value < MAX_P_VALUE else []
    peak, swing, client_p = _clients(log, rates, period, neighbours)
    variance = np.maximum(rates.variance, 1e-12)
    return Cycle(
        name=name,
        period=float(period),
        p_value=float(p_value),
        variance_share=float(np.clip(1 - residual / max(total, 1e-300), 0, 1)),
        client_share=float(np.average(np.minimum(swing**2 / 2 / variance, 1), weights=rates.watched + 1e-12)),
        amplitude=float(np.ptp(smooth) / 2),
        peak=float((np.argmax(smooth) + 0.5) / 720 * unit),
        profile=np.maximum(_profile(phase, excess, watched, min(PROFILE_BINS, max(2, int(period)))) + rates.mean, 0.0),
        client_peak=peak * unit,
        client_amplitude=swing,
        client_p_value=client_p,
        cyclic=discoveries(client_p),
    )


def harmonics(phase: Float[np.ndarray, " points"], count: int) -> Float[np.ndarray, "points columns"]:
    """Cosines and sines of the first harmonics; phase is a share of the cycle."""
    turns = 2 * np.pi * phase[:, None] * np.arange(1, count + 1)
    return np.concatenate([np.cos(turns), np.sin(turns)], axis=1)


def weighted_fit(
    design: Float[np.ndarray, "slots columns"], values: PerSlot, weight: PerSlot
) -> Float[np.ndarray, " columns"]:
    """Coefficients of the columns, by weighted least squares."""
    scaled = design * weight[:, None]
    return np.linalg.lstsq(scaled.T @ design, scaled.T @ values, rcond=1e-9)[0]


def weighted_mean(values: PerSlot, weight: PerSlot) -> float:
    """Mean over the slots; 0 where all weights are 0."""
    return float((values * weight).sum() / max(weight.sum(), 1e-300))


def _profile(phase: PerSlot, excess: PerSlot, watched: PerSlot, bins: int) -> Float[np.ndarray, " bins"]:
    place = np.minimum((phase * bins).astype(np.int64), bins - 1)
    number = np.bincount(place, watched, minlength=bins)
    return np.bincount(place, excess * watched, minlength=bins) / np.maximum(number, 1)


def _clients(log: Log, rates: Rates, period: float, neighbours: list[float]) -> tuple[PerClient, PerClient, PerClient]:
    """Peak (a share of the cycle), amplitude and p-value of each client's first harmonic."""
    if not neighbours:  # nothing to compare with, or no cycle and so no phase
        return np.full(log.num_clients, np.nan), np.zeros(log.num_clients), np.ones(log.num_clients)
    own = spectrum(log, rates.pi, 1 / period)
    count = np.maximum(rates.watched, 1)
    noise = np.mean([np.abs(spectrum(log, rates.pi, f)) ** 2 for f in neighbours], axis=0)
    power = np.abs(own) ** 2
    p_value = np.where(noise > 0, f_law.sf(power / np.maximum(noise, 1e-300), 2, 2 * len(neighbours)), 1.0)
    # On average the cycle is the same share of every client's variance; a client's own estimate is shrunk to that.
    scale = rates.variance * count**2
    signal = scale * max(0.0, float((power - noise).sum()) / max(float(scale.sum()), 1e-300))
    amplitude = 2 * np.sqrt(power * signal / np.maximum(signal + noise, 1e-300)) / count
    peak = np.mod(-np.angle(own) / (2 * np.pi) + (log.slots_since_midnight + 0.5) / period, 1.0)
    return np.where(power > noise, peak, np.nan), amplitude, p_value
