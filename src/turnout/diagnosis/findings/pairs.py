"""Pairs of clients that are together more often than chance allows.

Two persistent clients look similar by chance: with autocorrelations ρ_i and ρ_j, the variance of their sample
correlation over T slots is Σ_s ρ_i(s) ρ_j(s) / T (Bartlett 1946), many times 1/T. Two rare clients share by chance a
Poisson number of slots, whose tail is far heavier than a normal one. Both are accounted for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammainc, ndtr

from turnout.diagnosis.findings.cycles import Cycles, harmonics
from turnout.diagnosis.findings.memory import lagged_sums
from turnout.diagnosis.findings.run_sums import per_slot, watched_runs
from turnout.diagnosis.reading.log import Log

Matrix = Float[np.ndarray, "rows slots"]  # in single precision, since large matrices are multiplied
Pairs = Float[np.ndarray, "rows rows"]
PerPair = Float[np.ndarray, " pairs"]
Places = Int[np.ndarray, " pairs"]  # rows of the pairs

FALSE_LINK_RATE = 0.01  # false discovery rate among pairs
MIN_FLEET = 10  # in a smaller fleet the activity of the others is mostly that of a client's own cluster


@dataclass(frozen=True)
class Deviations:
    """The clients that are compared pair by pair."""

    watched: Float[np.ndarray, "rows slots"]  # 1 where watched
    fitted: Matrix  # probability of presence by the activity of the fleet and the cycles
    residual: Matrix  # presence beyond that; 0 where not watched

    @property
    def number(self) -> Float[np.ndarray, " rows"]:
        return np.maximum(self.watched.sum(axis=1), 1)

    @property
    def deviation(self) -> Float[np.ndarray, " rows"]:
        return np.sqrt((self.residual**2).sum(axis=1) / self.number)


def compare(log: Log, cycles: Cycles, chosen: Int[np.ndarray, " rows"]) -> Deviations:
    """Regress each client's presence on the activity of all others and on the cycles."""
    present, watched = log.matrix(chosen), log.watched_matrix(chosen)
    total, num_watched = per_slot(log.present, log.num_slots), per_slot(watched_runs(log), log.num_slots)
    slot = np.arange(log.num_slots)
    columns = [harmonics(slot / cycle.period, 4) for cycle in cycles.found]
    common = np.concatenate([np.ones((log.num_slots, 1)), *columns], axis=1)
    fitted = np.zeros(present.shape, np.float32)
    for row, mask in enumerate(watched):
        design = common[mask]
        if log.num_clients >= MIN_FLEET:
            others = (total[mask] - present[row, mask]) / np.maximum(num_watched[mask] - 1, 1)
            design = np.column_stack([design, others])
        solution = np.linalg.lstsq(design.T @ design, design.T @ present[row, mask].astype(np.float64), rcond=1e-9)[0]
        fitted[row, mask] = np.clip(design @ solution, 0, 1)
    return Deviations(watched.astype(np.float32), fitted, np.where(watched, present - fitted, 0.0).astype(np.float32))


def correlations(compared: Deviations) -> Pairs:
    """Correlation of every two rows over the slots in which both were watched; 0 on the diagonal."""
    residual = compared.residual
    power = (residual**2) @ compared.watched.T  # of a row over the slots of another
    correlation = (residual @ residual.T).astype(np.float64) / np.sqrt(np.maximum(power * power.T, 1e-9))
    np.fill_diagonal(correlation, 0.0)
    return correlation


def significant(compared: Deviations, correlation: Pairs) -> Bool[np.ndarray, "rows rows"]:
    """Pairs that are together more often than chance allows, at a false discovery rate."""
    both = (compared.watched @ compared.watched.T).astype(np.float64)
    inflation = _bartlett(compared.residual)
    score = correlation * np.sqrt(np.maximum(both, 1) / inflation)
    upper = np.triu(np.ones_like(correlation, bool), 1) & (both >= 10)
    row, column = np.nonzero(upper & (score > 3))
    p_value = _tail(compared, row, column, score[row, column], (both * inflation)[row, column])
    order = np.argsort(p_value)
    below = np.flatnonzero(p_value[order] <= FALSE_LINK_RATE * np.arange(1, len(order) + 1) / max(1, int(upper.sum())))
    linked = np.zeros(correlation.shape, bool)
    if len(below):
        kept = order[: below[-1] + 1]
        linked[row[kept], column[kept]] = linked[column[kept], row[kept]] = True
    return linked


def _bartlett(residual: Matrix) -> Pairs:
    """Σ_s ρ_i(s) ρ_j(s), at least 1, from the sample autocorrelations up to T^(2/3)."""
    lagged = lagged_sums(residual, max(2, int(residual.shape[1] ** (2 / 3))))
    rho = (lagged[:, 1:] / np.maximum(lagged[:, :1], 1e-9)).astype(np.float32)
    return np.maximum(1 + 2 * (rho @ rho.T).astype(np.float64), 1.0)


def _tail(compared: Deviations, row: Places, column: Places, score: PerPair, inflated: PerPair) -> PerPair:
    """p-value of the slots that two clients share.

    Shared slots O with expectation E and variance φE are modelled as φ times a Poisson number of mean E/φ. For two
    clients that are mostly present, shared absences are counted instead. For a rare and a common client the normal tail
    is conservative.
    """
    p_value = ndtr(-score)
    mostly_present = compared.fitted.sum(axis=1) / compared.number > 0.5
    deviation = compared.deviation.astype(np.float64)
    for common in (False, True):
        pair = (mostly_present[row] == common) & (mostly_present[column] == common)
        if pair.any():
            chance = compared.watched - compared.fitted if common else compared.fitted
            i, j = row[pair], column[pair]
            expected = np.maximum(_products(chance, i, j), 1e-6)
            variance = (deviation[i] * deviation[j]) ** 2 * inflated[pair]
            scale, shared = variance / expected, expected + score[pair] * np.sqrt(variance)
            p_value[pair] = np.maximum(p_value[pair], gammainc(shared / scale, expected / scale))
    return p_value


def _products(rows: Matrix, i: Places, j: Places) -> PerPair:
    """Inner products of these pairs of rows, one by one if they are few."""
    if 20 * len(i) > len(rows) ** 2:
        return (rows @ rows.T)[i, j].astype(np.float64)
    return np.array([rows[a] @ rows[b] for a, b in zip(i, j, strict=True)], np.float64)
