"""Whether the fleet stays what it is: changes of level, of the whole and of single clients, arrivals and departures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import solve_toeplitz
from scipy.special import betaln, kolmogorov, ndtr

from turnout.diagnosis.cycles import Cycles, excess_of, harmonics
from turnout.diagnosis.log import Log
from turnout.diagnosis.mixing import activity
from turnout.diagnosis.rates import PRIOR_LEAVE, PRIOR_STAY, Rates, discoveries, transitions
from turnout.diagnosis.sweeps import PerClient, per_block, per_slot, watched_runs

PerSlot = Float[np.ndarray, " slots"]

BLOCKS = 12
LEAST_MOVES = 10  # times a client must come and go before a change of its rate can be told from its habits
CERTAIN = 1e-3


@dataclass(frozen=True)
class Drift:
    """Tests of a constant fleet, valid under autocorrelation and cycles."""

    fleet_p_value: float  # of a constant level of the whole
    change_slot: int | None  # where the level changed most, if it did
    level_before: float  # share of the fleet there before that slot, or all along
    level_after: float
    client_p_value: PerClient  # of a constant rate of each client; 1 where it moved too little to tell
    drifting: Bool[np.ndarray, " clients"]  # at a false discovery rate of 5 %
    pooled_p_value: float  # of constant rates of all clients
    stationary_from: int  # first slot of the last stretch that looks stationary
    arrived_late: Bool[np.ndarray, " clients"]  # first seen later than their rates explain
    vanished: Bool[np.ndarray, " clients"]  # last seen earlier than their rates explain

    @property
    def found(self) -> bool:
        """Whether the fleet is surely not stationary."""
        return min(self.fleet_p_value, self.pooled_p_value) < CERTAIN


def drift(log: Log, rates: Rates, cycles: Cycles, unit: Int[np.ndarray, " clients"] | None = None) -> Drift:
    """Test for change; clients of the same `unit` move together and count as one where clients are pooled."""
    excess, watched = excess_of(log, rates)
    flat = excess - _cycle_part(log, cycles, excess, watched)
    known = watched > 0
    fleet_p, place = cusum(flat[known], _chains_variance(log, rates, watched, unit)) if known.sum() > 2 else (1.0, 0)
    slot = int(np.flatnonzero(known)[place]) if known.any() else 0
    edges = _edges(log, cycles)
    client_p, statistic, client_edge = _clients(log, rates, edges)
    level = activity(log)
    changed = fleet_p < CERTAIN
    pooled = _pooled(statistic, unit, len(edges) - 1)
    late, gone = _comings(log)
    return Drift(
        fleet_p_value=fleet_p,
        change_slot=slot if changed else None,
        level_before=_mean(level[:slot] if changed else level),
        level_after=_mean(level[slot:] if changed else level),
        client_p_value=client_p,
        drifting=discoveries(client_p),
        pooled_p_value=pooled,
        stationary_from=_stationary_from(slot if changed else 0, pooled, client_p, client_edge, edges),
        arrived_late=late,
        vanished=gone,
    )


def _mean(values: PerSlot) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _cycle_part(log: Log, cycles: Cycles, excess: PerSlot, watched: PerSlot) -> PerSlot:
    """What the cycles found explain of the fleet's activity."""
    if not cycles.found:
        return np.zeros(log.num_slots)
    slot = np.arange(log.num_slots)
    design = np.concatenate([harmonics(slot / cycle.period, 3) for cycle in cycles.found], axis=1)
    weighted = design * watched[:, None]
    return design @ np.linalg.lstsq(weighted.T @ design, weighted.T @ excess, rcond=1e-9)[0]


def _chains_variance(log: Log, rates: Rates, watched: PerSlot, unit: Int[np.ndarray, " clients"] | None) -> float:
    """Long-run variance of the fleet's share if its units were independent chains."""
    slow = (1 + rates.lam) / (1 - rates.lam)
    if unit is not None:
        slow = slow * np.bincount(unit)[unit]  # n clients that move as one have n² times the variance of one
    total = per_slot(watched_runs(log), log.num_slots, np.nan_to_num(rates.pi * (1 - rates.pi)) * slow)
    return float((total / np.maximum(watched, 1) ** 2)[watched > 0].mean())


def cusum(series: PerSlot, least_variance: float = 0.0) -> tuple[float, int]:
    """p-value of a constant mean, and where a second level would best begin.

    max_t |Σ_{s ≤ t} (x_s - x̄)| / √(σ² T) has the law of Kolmogorov's statistic when σ² is the long-run variance
    Σ_s cov(x_t, x_{t+s}). That is taken from the spectrum at zero of an autoregression, fitted after the best two
    levels were taken off, so that a change does not hide itself by looking like persistence; `least_variance` is what
    is known of σ² from elsewhere.
    """
    sums = np.cumsum(series - series.mean())[:-1]
    place = int(np.argmax(np.abs(sums))) + 1 if len(sums) else 0
    # A level of its own for either side, unless one of them is too short to have one.
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
            # Φ = Σφ is estimated too low by (1 + 3Φ) / T where a mean is taken off (Kendall 1954, for order one), and
            # by about as much again for the second level and for the choice of its place.
            total = float(phi.sum())
            total = min(total + 3 * (1 + 3 * total) / count, 1 - 2 / count)
            best, chosen = score, float(error / (1 - total) ** 2)
    return chosen


def _edges(log: Log, cycles: Cycles) -> Int[np.ndarray, " edges"]:
    """Blocks of equal length, whole cycles each where there is one."""
    edges = np.linspace(0, log.num_slots, BLOCKS + 1)
    if cycles.found:
        period = max((c.period for c in cycles.found if c.period * 4 <= log.num_slots), default=1.0)
        edges = np.round(np.round(edges / period) * period)
        edges = edges[edges <= log.num_slots]
    return np.unique(edges.astype(np.int64))


def _clients(
    log: Log, rates: Rates, edges: Int[np.ndarray, " edges"]
) -> tuple[PerClient, PerClient, Int[np.ndarray, " clients"]]:
    """Of each client: p-value of a constant rate, mean square of its CUSUM (NaN if untestable), edge of its maximum.

    The long-run variance of a chain is π(1 - π)(1 + λ)/(1 - λ) a slot.
    """
    there = per_block(log.present, edges, log.num_clients)
    seen = per_block(watched_runs(log), edges, log.num_clients)
    slots = seen.sum(axis=1, keepdims=True)
    mean = there.sum(axis=1, keepdims=True) / np.maximum(slots, 1)
    moves = transitions(log)
    testable = (np.minimum(moves.off_on, moves.on_off) >= LEAST_MOVES) & ((seen > 0).sum(axis=1) >= 4)
    variance = (mean * (1 - mean))[:, 0] * (1 + rates.lam) / (1 - rates.lam)
    sums = np.cumsum(there - seen * mean, axis=1)[:, :-1]
    bridge = sums / np.sqrt(np.maximum(variance * slots[:, 0], 1e-12))[:, None]
    if bridge.shape[1] == 0:
        nothing = np.ones(log.num_clients)
        return nothing, nothing * np.nan, np.zeros(log.num_clients, np.int64)
    largest = np.abs(bridge).max(axis=1)
    p_value = np.where(testable, kolmogorov(largest), 1.0)
    share = np.cumsum(seen, axis=1)[:, :-1] / np.maximum(slots, 1)
    expected = np.maximum((share * (1 - share)).mean(axis=1), 1e-12)
    statistic = np.where(testable, (bridge**2).mean(axis=1) / expected, np.nan)
    return p_value, statistic, np.abs(bridge).argmax(axis=1) + 1


def _pooled(statistic: PerClient, unit: Int[np.ndarray, " clients"] | None, blocks: int) -> float:
    """p-value of the mean over units of the clients' statistics, each of mean 1 under constant rates."""
    known = np.isfinite(statistic)
    if not known.any() or blocks < 2:
        return 1.0
    group = np.arange(len(statistic)) if unit is None else unit
    _, place = np.unique(group[known], return_inverse=True)
    each = np.bincount(place, statistic[known]) / np.bincount(place)
    u = np.arange(1, blocks) / blocks
    covariance = np.minimum.outer(u, u) * (1 - np.maximum.outer(u, u))
    variance = 2 * (covariance**2).sum() / np.trace(covariance) ** 2
    return float(ndtr(-(each.mean() - 1) / np.sqrt(variance / len(each))))


def _stationary_from(
    fleet_slot: int,
    pooled: float,
    client_p: PerClient,
    client_edge: Int[np.ndarray, " clients"],
    edges: Int[np.ndarray, " edges"],
) -> int:
    """After the fleet's change, or after that of most clients who drift, but at least the last quarter is kept."""
    start = fleet_slot
    if pooled < CERTAIN:
        drifting = discoveries(client_p)
        if drifting.any():
            start = max(start, int(np.median(edges[client_edge[drifting]])))
    return int(min(start, int(edges[-1]) * 3 // 4))


def _comings(log: Log) -> tuple[Bool[np.ndarray, " clients"], Bool[np.ndarray, " clients"]]:
    """Who was absent for longer at the beginning, or at the end, than its wake rate while it was around explains.

    With wake rate a of law Beta(α, β) after what was seen in between, an absence of f slots has probability
    E(1 - a)^f = B(α, β + f) / B(α, β).
    """
    count, present = log.num_clients, log.present
    seen_once = np.bincount(present.client, minlength=count) > 0
    first, last = np.zeros(count, np.int64), np.full(count, log.num_slots, np.int64)
    last[present.client] = present.end  # the last written stays: runs are in order
    first[present.client[::-1]] = present.first[::-1]
    before, after = _watched_outside(log, first, last)
    moves = transitions(log)
    leave = np.maximum(moves.off_on - (before > 0), 0) + PRIOR_LEAVE
    stay = np.maximum(moves.off_off - before - after, 0) + PRIOR_STAY

    def unlikely(absence: Int[np.ndarray, " clients"]) -> Bool[np.ndarray, " clients"]:
        chance = np.exp(betaln(leave, stay + absence) - betaln(leave, stay))
        return discoveries(np.where(seen_once, chance, 1.0)) & seen_once

    return unlikely(before), unlikely(after)


def _watched_outside(
    log: Log, first: Int[np.ndarray, " clients"], last: Int[np.ndarray, " clients"]
) -> tuple[Int[np.ndarray, " clients"], Int[np.ndarray, " clients"]]:
    """Watched slots of each client before its first presence and after its last."""
    seen = watched_runs(log)

    def number(length: Int[np.ndarray, " runs"]) -> Int[np.ndarray, " clients"]:
        return np.bincount(seen.client, np.maximum(length, 0), minlength=log.num_clients).astype(np.int64)

    before = number(np.minimum(seen.end, first[seen.client]) - seen.first)
    after = number(seen.end - np.maximum(seen.first, last[seen.client]))
    return before, after
