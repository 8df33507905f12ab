"""Whether the fleet is stationary: changes of level, of the fleet or of single clients, arrivals and departures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy.linalg import solve_toeplitz
from scipy.special import kolmogorov, ndtr

from turnout.workbench.diagnosis.findings.blocks import BLOCKS, Blocks, blocks_of, memory_of
from turnout.workbench.diagnosis.findings.churn import churn
from turnout.workbench.diagnosis.findings.cycles import Cycles, harmonics, weighted_fit, weighted_mean
from turnout.workbench.diagnosis.findings.rates import FALSE_DISCOVERY_RATE, Counts, Rates, discoveries, transitions
from turnout.workbench.diagnosis.findings.run_sums import (
    PerClient,
    PerSlot,
    excess_of,
    per_slot,
    representative,
    select,
    watched_runs,
    watched_slots,
    window,
)
from turnout.workbench.diagnosis.findings.spells import spells_variance
from turnout.workbench.diagnosis.reading.log import Log

MIN_BLOCKS = 4
MIN_MOVES = 10  # times a client must come and go for a change of its rate to be tested
FALSE_DRIFT_RATE = 0.01  # accepted share of clients that are wrongly named
MAX_P_VALUE = 1e-3  # below it, a change counts as found
MIN_STRENGTH, MAX_STATISTIC = 2.0, 5.0  # of the mean change of clients, in which none counts more than this
MIN_DRIFTING_SHARE = 0.1  # of the clients, for the fleet to count as drifting
MIN_WATCHED_SHARE = 0.9  # of the clients, in a stretch that is to represent the fleet


@dataclass(frozen=True)
class Drift:
    """Tests of a constant fleet, valid under autocorrelation and cycles."""

    fleet_p_value: float  # of a constant level of the whole fleet
    change_slot: int | None  # where the level changed most, if it did
    level_before: float  # share of the fleet that is present before that slot, or in the whole log
    level_after: float
    client_p_value: PerClient  # of a constant rate of each client; 1 if it moved too little to be tested
    drifting: Bool[np.ndarray, " clients"]  # at a false discovery rate of 1 %, of 5 % in a fleet that drifts
    pooled_p_value: float  # of constant rates of all clients
    strength: float  # mean square of the clients' changes, over that of chance
    inflation: float  # long-run variance of a client's presence, over that of chains
    stationary_from: int  # first slot of the last stretch that looks stationary
    arrived_late: Bool[np.ndarray, " clients"]  # first seen later than their rates explain
    vanished: Bool[np.ndarray, " clients"]  # last seen earlier than their rates explain

    @property
    def found(self) -> bool:
        """Whether the fleet is significantly not stationary: its level changed, or that of many clients did."""
        many = float(self.drifting.mean()) >= MIN_DRIFTING_SHARE
        strong = self.pooled_p_value < MAX_P_VALUE and self.strength >= MIN_STRENGTH
        return self.fleet_p_value < MAX_P_VALUE or (strong and many)


def drift(log: Log, rates: Rates, cycles: Cycles, unit: Int[np.ndarray, " clients"] | None = None) -> Drift:
    """Test for change; clients of the same `unit` move together and count as one where clients are pooled."""
    excess, watched = excess_of(log, rates.pi)
    # Numbers rather than shares: where few are watched, shares are noisy.
    flat = (excess - _cycle_part(log, cycles, excess, watched)) * watched
    moves = transitions(log)
    testable = np.flatnonzero(np.minimum(moves.off_on, moves.on_off) >= MIN_MOVES)
    blocks = blocks_of(select(log, testable), cycles)
    memory = memory_of(blocks, rates.pi[testable], rates.lam[testable])
    observed = representative(watched)
    by_spells = spells_variance(log)
    of_fleet = _of_units(by_spells, unit).sum() / max(int(observed.sum()), 1)
    least = max(_chains_variance(log, rates, unit) * max(memory.long_run, 1.0), of_fleet)
    fleet_p, place = cusum(flat[observed], least) if observed.sum() > 2 else (1.0, 0)
    slot = int(np.flatnonzero(observed)[place]) if observed.any() else 0
    clients = _clients(blocks, rates.lam[testable], memory.of_bridges, by_spells[testable])
    pooled, strength = _pool(clients[1], testable if unit is None else unit[testable])
    all_change = pooled < MAX_P_VALUE and strength >= MIN_STRENGTH
    if all_change:  # the spells then vary for that reason, too, so clients are named by the variance of chains
        clients = _clients(blocks, rates.lam[testable], memory.of_bridges, 0 * by_spells[testable])
    client_p = np.ones(log.num_clients)
    client_p[testable], _, client_slot = clients
    drifting = discoveries(client_p, FALSE_DISCOVERY_RATE if all_change else FALSE_DRIFT_RATE)
    changed = fleet_p < MAX_P_VALUE
    members = churn(log, cycles)
    return Drift(
        fleet_p_value=fleet_p,
        change_slot=slot if changed else None,
        level_before=rates.mean + (weighted_mean(excess[:slot], watched[:slot]) if changed else 0.0),
        level_after=rates.mean + (weighted_mean(excess[slot:], watched[slot:]) if changed else 0.0),
        client_p_value=client_p,
        drifting=drifting,
        pooled_p_value=pooled,
        strength=strength,
        inflation=memory.long_run,
        stationary_from=_stationary_from(log, slot if changed else 0, client_slot[drifting[testable]], all_change),
        arrived_late=members.arrived_late,
        vanished=members.vanished,
    )


def _cycle_part(log: Log, cycles: Cycles, excess: PerSlot, watched: PerSlot) -> PerSlot:
    """The part of the fleet's activity that the cycles explain."""
    if not cycles.found:
        return np.zeros(log.num_slots)
    slot = np.arange(log.num_slots)
    design = np.concatenate([harmonics(slot / cycle.period, 3) for cycle in cycles.found], axis=1)
    return design @ weighted_fit(design, excess, watched)


def _chains_variance(log: Log, rates: Rates, unit: Int[np.ndarray, " clients"] | None) -> float:
    """Long-run variance of the number of clients present, if units were independent chains."""
    slow = (1 + rates.lam) / (1 - rates.lam)
    total = per_slot(watched_runs(log), log.num_slots, _of_units(rates.variance * slow, unit))
    return float(total[total > 0].mean()) if (total > 0).any() else 0.0


def _of_units(variance: PerClient, unit: Int[np.ndarray, " clients"] | None) -> PerClient:
    """Variances of clients that move as one: n of them have n² times that of one, so each counts n times."""
    return variance if unit is None else variance * np.bincount(unit)[unit]


def cusum(series: PerSlot, least_variance: float = 0.0) -> tuple[float, int]:
    """p-value of a constant mean, and where a second level would best begin.

    max_t |Σ_{s ≤ t} (x_s - x̄)| / √(σ² T) has the law of Kolmogorov's statistic if σ² is the long-run variance
    Σ_s cov(x_t, x_{t+s}). It is taken from the spectrum at zero of an autoregression. The best two levels are
    subtracted before the fit, so that a change is not mistaken for persistence. `least_variance` bounds σ² from below.
    """
    sums = np.cumsum(series - series.mean())[:-1]
    place = int(np.argmax(np.abs(sums))) + 1 if len(sums) else 0
    # One level for each side, unless one of them is too short for it.
    least = max(10, len(series) // 10)
    levels = np.full(len(series), series.mean())
    if least <= place <= len(series) - least:
        levels[:place], levels[place:] = series[:place].mean(), series[place:].mean()
    variance = max(long_run_variance(series - levels), least_variance)
    if variance <= 0:
        return 1.0, place
    largest = float(np.abs(sums).max(initial=0.0))
    return float(kolmogorov(largest / np.sqrt(variance * len(series)))), place


def long_run_variance(series: PerSlot) -> float:
    """Spectrum at zero, σ_e² / (1 - Σ φ)², of the autoregression whose order Akaike's criterion chooses."""
    count = len(series)
    most = min(int(10 * np.log10(max(count, 2))), count // 4)
    centred = series - series.mean()
    covariance = np.array([(centred[: count - s] * centred[s:]).sum() / count for s in range(most + 1)])
    if covariance[0] <= 1e-15:
        return 0.0
    best, chosen = np.inf, float(covariance[0])
    for order in range(1, most + 1):
        phi = solve_toeplitz(covariance[:order], covariance[1 : order + 1])
        error = covariance[0] - phi @ covariance[1 : order + 1]
        if error <= 0:
            break
        score = count * np.log(error) + 2 * order
        if score < best:
            # Φ = Σφ is estimated too low by (1 + 3Φ) / T where a mean is subtracted (Kendall 1954, for order one),
            # and by about as much again for the second level and for the choice of its place.
            total = float(phi.sum())
            total = min(total + 3 * (1 + 3 * total) / count, 1 - 2 / count)
            best, chosen = score, float(error / (1 - total) ** 2)
    return chosen


def _clients(
    blocks: Blocks, lam: PerClient, inflation: float, by_spells: PerClient
) -> tuple[PerClient, PerClient, Counts]:
    """Per client: p-value of a constant rate, mean square of its CUSUM (NaN if untestable), slot of its maximum.

    The long-run variance of a chain is π(1 - π)(1 + λ)/(1 - λ) per slot; at least that of spells in any order is taken.
    """
    number = blocks.full.sum(axis=1)
    mean = blocks.present.sum(axis=1) / np.maximum(number, 1)
    testable = number >= MIN_BLOCKS
    share = mean / blocks.length
    variance = share * (1 - share) * (1 + lam) / (1 - lam) * blocks.length * number * max(inflation, 1.0)
    variance = np.maximum(variance, by_spells)
    sums = np.cumsum(np.where(blocks.full, blocks.present - mean[:, None], 0.0), axis=1)[:, :-1]
    bridge = sums / np.sqrt(np.maximum(variance, 1e-12))[:, None]
    passed = np.cumsum(blocks.full, axis=1)[:, :-1] / np.maximum(number, 1)[:, None]
    inner = passed < 1
    expected = (passed * (1 - passed)).sum(axis=1)
    statistic = np.where(testable, (bridge**2 * inner).sum(axis=1) / np.maximum(expected, 1e-12), np.nan)
    p_value = np.where(testable, kolmogorov(np.abs(bridge).max(axis=1)), 1.0)
    return p_value, statistic, (np.abs(bridge).argmax(axis=1) + 1) * blocks.length


def _pool(statistic: PerClient, unit: Int[np.ndarray, " clients"]) -> tuple[float, float]:
    """p-value and size of the mean over units of the clients' statistics, each of mean 1 under constant rates."""
    testable = np.isfinite(statistic)
    if not testable.any():
        return 1.0, 0.0
    _, place = np.unique(unit[testable], return_inverse=True)
    each = np.bincount(place, statistic[testable]) / np.bincount(place)
    u = np.arange(1, BLOCKS) / BLOCKS
    covariance = np.minimum.outer(u, u) * (1 - np.maximum.outer(u, u))
    variance = 2 * (covariance**2).sum() / np.trace(covariance) ** 2
    p_value = float(ndtr(-(each.mean() - 1) / np.sqrt(variance / len(each))))
    return p_value, float(np.minimum(each, MAX_STATISTIC).mean())


def _stationary_from(log: Log, fleet_slot: int, client_slots: Int[np.ndarray, " drifting"], all_change: bool) -> int:
    """First slot after the change of the fleet, or of half of the drifting clients; at most 3/4 of the log are cut off.

    If many clients were not watched after that slot, the whole log is kept.
    """
    start = fleet_slot
    if all_change and len(client_slots):
        start = max(start, int(np.median(client_slots)))
    start = min(start, log.num_slots * 3 // 4)
    late, all_along = watched_slots(window(log, start, log.num_slots)), watched_slots(log)
    return start if (late > 0.1 * all_along).mean() >= MIN_WATCHED_SHARE else 0
