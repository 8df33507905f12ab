"""Pairs of clients that are together more often than chance allows.

Two persistent clients look similar by chance: with autocorrelations ρ_i and ρ_j, the variance of their sample
correlation over T slots is Σ_s ρ_i(s) ρ_j(s) / T (Bartlett 1946), many times 1/T. Two rare clients share by chance a
Poisson number of slots, whose tail is far heavier than a normal one. Both are accounted for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammainc, ndtr

from turnout.statistics import evenly
from turnout.workbench.diagnosis.findings.cycles import Cycles, hours_of_cycle
from turnout.workbench.diagnosis.findings.memory import lagged_sums
from turnout.workbench.diagnosis.findings.rates import adjust
from turnout.workbench.diagnosis.findings.run_sums import PerSlot, per_slot, representative, watched_runs
from turnout.workbench.diagnosis.reading.log import Log

Matrix = Float[np.ndarray, "rows slots"]  # in single precision, since large matrices are multiplied
Pairs = Float[np.ndarray, "rows rows"]
PerPair = Float[np.ndarray, " pairs"]
Places = Int[np.ndarray, " pairs"]  # rows of the pairs

FALSE_LINK_RATE = 0.01  # false discovery rate among pairs, with a cycle
# The same without a cycle, and for a pair that is a cluster by itself, as if p-values were exact. Those of long memory
# and of single pairs in a week are too small: at a rate of 1 % up to one of six such fleets had company by chance.
STRICT_LINK_RATE = 1e-5
MIN_SHARED = 10  # slots in which two clients are watched, for them to be compared
MAX_SHIFTED, MAX_SHIFTS = 500, 8  # clients, and whole cycles, by which courses are shifted against each other
MIN_SCORE = 3.0  # standard deviations from which on a pair is suspected
MOST_EXTREME, FEWEST_EXTREME = 200, 5  # p-values of shifted courses that tell of the tail
PRIOR_PAIRS = 20  # pairs of the whole fleet beside a client's own
MIN_UNLIKE = 4.5  # times the median distance from the median, three standard deviations of a normal law
MIN_FLEET = 10  # in a smaller fleet the activity of the others is mostly that of a client's own cluster


@dataclass(frozen=True)
class Deviations:
    """The clients that are compared pair by pair."""

    watched: Float[np.ndarray, "rows slots"]  # 1 where watched
    fitted: Matrix  # probability of presence by the activity of the fleet and the cycles
    residual: Matrix  # presence beyond that; 0 where not watched
    period: int | None = None  # slots of the cycle that was removed

    @property
    def number(self) -> Float[np.ndarray, " rows"]:
        return np.maximum(self.watched.sum(axis=1), 1)

    @property
    def mostly_present(self) -> Bool[np.ndarray, " rows"]:
        return self.fitted.sum(axis=1) / self.number > 0.5

    def chance(self, of_absence: bool) -> Matrix:
        """Probability of presence, or of absence."""
        return self.watched - self.fitted if of_absence else self.fitted

    def rows(self, chosen: Int[np.ndarray, " chosen"]) -> Deviations:
        """Some of the clients."""
        return replace(self, watched=self.watched[chosen], fitted=self.fitted[chosen], residual=self.residual[chosen])

    def shifted(self, slots: int) -> Deviations:
        """All courses so much later; what leaves at the end comes in at the beginning."""
        parts = {name: np.roll(getattr(self, name), slots, axis=1) for name in ("watched", "fitted", "residual")}
        return replace(self, **parts)

    @property
    def deviation(self) -> Float[np.ndarray, " rows"]:
        return np.sqrt((self.residual**2).sum(axis=1) / self.number)


def compare(log: Log, cycles: Cycles, chosen: Int[np.ndarray, " rows"]) -> Deviations:
    """Take from each client's presence its own mean at that hour of the cycle, and what follows the activity of others.

    A common cycle is so removed whatever its shape and whatever the client's time zone, and so is a common shock. A day
    or a week that is not like others, such as a holiday, changes a client's presence at the client's own hours: what
    others do over one turn of the cycle, times the client's own mean at that hour, is taken away, too.
    Without a cycle a client is compared from its first presence to its last: it may have joined late, or left.
    """
    present = log.matrix(chosen)
    watched = log.watched_matrix(chosen)
    total, num_watched = per_slot(log.present, log.num_slots), per_slot(watched_runs(log), log.num_slots)
    phase, period = hours_of_cycle(log, cycles)
    if period is None:  # a cycle is compared over whole turns of it
        watched &= _from_first_to_last(present)
    enough = representative(num_watched)
    turn = round(min((cycle.period for cycle in cycles.found), default=period or 1))
    fitted = np.zeros(present.shape, np.float32)
    for row, mask in enumerate(watched):
        number = np.maximum(np.bincount(phase[mask], minlength=period or 1), 1)

        def usual(values: PerSlot, at: PerSlot = phase[mask], number: PerSlot = number) -> PerSlot:
            return (np.bincount(at, values, minlength=len(number)) / number)[at]

        own = present[row, mask].astype(np.float64)
        expected = usual(own)
        if log.num_clients >= MIN_FLEET:
            others = (total[mask] - own) / np.maximum(num_watched[mask] - 1, 1)
            mean = usual(others)
            others = np.where(enough[mask], others - mean, 0.0)
            columns = [others] if period is None else [others, expected * unlike_others(others, mean, turn)]
            expected = expected + explained(np.stack(columns, axis=1), own - expected)
        fitted[row, mask] = np.clip(expected, 0, 1)
    residual = np.where(watched, present - fitted, 0.0).astype(np.float32)
    return Deviations(watched.astype(np.float32), fitted, residual, period)


def unlike_others(beyond: PerSlot, usual: PerSlot, length: int) -> PerSlot:
    """What is beyond the usual over what is usual, in so many slots around each, where that is far; 0 elsewhere."""
    slot = np.arange(len(beyond))
    begin, end = np.maximum(slot - length // 2, 0), np.minimum(slot + (length + 1) // 2, len(slot))
    sums = (np.r_[0.0, np.cumsum(values)] for values in (beyond, usual))
    above, level = (total[end] - total[begin] for total in sums)
    share = above / np.maximum(level, 1e-9)
    distance = np.abs(share - np.median(share))
    return np.where(distance > MIN_UNLIKE * np.median(distance), share, 0.0)


def explained(columns: Float[np.ndarray, "slots columns"], values: PerSlot) -> PerSlot:
    """The part of the values that the columns explain, by least squares."""
    return columns @ np.linalg.lstsq(columns.T @ columns, columns.T @ values, rcond=1e-9)[0]


def _from_first_to_last(present: Bool[np.ndarray, "rows slots"]) -> Bool[np.ndarray, "rows slots"]:
    return np.logical_or.accumulate(present, axis=1) & np.logical_or.accumulate(present[:, ::-1], axis=1)[:, ::-1]


def correlations(first: Deviations, second: Deviations | None = None) -> Pairs:
    """Correlation of each row with each of the second, over the slots in which both were watched; 0 on the diagonal."""
    second = first if second is None else second
    power = (first.residual**2) @ second.watched.T  # of a row over the slots of another
    other = first.watched @ (second.residual**2).T
    correlation = (first.residual @ second.residual.T).astype(np.float64) / np.sqrt(np.maximum(power * other, 1e-9))
    np.fill_diagonal(correlation, 0.0)
    return correlation


def false_rates(compared: Deviations, correlation: Pairs) -> Pairs:
    """The false discovery rate from which on each pair is together more often than chance allows; 1 for the others."""
    inflation = _bartlett(compared.residual)
    if compared.period is not None:
        inflation = _cyclic(compared, inflation, compared.period)
    upper = np.triu(np.ones_like(correlation, bool), 1)
    row, column, p_value, tests = _suspected(compared, compared, correlation, inflation, upper)
    if compared.period is None:  # with a cycle the variance has been measured in such a way
        p_value = _beyond_shifted(compared, inflation, p_value)
    rate = np.ones(correlation.shape)
    rate[row, column] = rate[column, row] = adjust(p_value, tests)
    return rate


def _suspected(
    first: Deviations, second: Deviations, correlation: Pairs, inflation: Pairs, asked: Bool[np.ndarray, "rows rows"]
) -> tuple[Places, Places, PerPair, int]:
    """The asked pairs of a row of the first and one of the second that are often together, p-values, pairs tested."""
    both = (first.watched @ second.watched.T).astype(np.float64)
    score = correlation * np.sqrt(np.maximum(both, 1) / inflation)
    asked = asked & (both >= MIN_SHARED)
    row, column = np.nonzero(asked & (score > MIN_SCORE))
    p_value = _tail(first, second, row, column, score[row, column], (both * inflation)[row, column])
    return row, column, p_value, int(asked.sum())


def _beyond_shifted(compared: Deviations, inflation: Pairs, p_value: PerPair) -> PerPair:
    """The p-values, raised where courses that are shifted against each other give small ones more often than they say.

    Shifted courses have the memory, the spells and the rarity of the real ones, but no company. Beyond the smallest
    p-values that they give, the tail is continued as an exponential one in -log p.
    """
    slots = compared.residual.shape[1]
    shifts = np.arange(slots // 10 + 1, slots * 9 // 10)
    rows = evenly(len(inflation), MAX_SHIFTED)
    if not len(p_value) or not len(shifts):
        return p_value
    second, apart = compared.rows(rows), ~np.eye(len(rows), dtype=bool)
    found, tests = [], 0
    for shift in shifts[evenly(len(shifts), MAX_SHIFTS)]:
        first = second.shifted(int(shift))
        *_, by_chance, number = _suspected(
            first, second, correlations(first, second), inflation[np.ix_(rows, rows)], apart
        )
        found.append(by_chance)
        tests += number
    surprise = np.sort(-np.log(np.maximum(np.concatenate(found), 1e-300)))[::-1][:MOST_EXTREME]
    if len(surprise) < FEWEST_EXTREME:
        return p_value
    begin = surprise[-1]
    rate = max(1.0, float((surprise - begin).sum() / (len(surprise) - 1)))
    own = -np.log(np.maximum(p_value, 1e-300))
    shown = len(surprise) / tests * np.exp(-(own - begin) / rate)
    return np.where(own > begin, np.maximum(p_value, shown), p_value)


def _bartlett(residual: Matrix) -> Pairs:
    """Σ_s ρ_i(s) ρ_j(s), at least 1, from the sample autocorrelations up to T^(2/3)."""
    lagged = lagged_sums(residual, max(2, int(residual.shape[1] ** (2 / 3))))
    rho = (lagged[:, 1:] / np.maximum(lagged[:, :1], 1e-9)).astype(np.float32)
    return np.maximum(1 + 2 * (rho @ rho.T).astype(np.float64), 1.0)


def _cyclic(compared: Deviations, inflation: Pairs, period: int) -> Pairs:
    """`inflation` for clients that vary more at some hours of a cycle than at others, at least 1.

    Two clients that move at the same hours have fewer independent slots than Bartlett's formula counts for stationary
    courses: with variances v_i and v_j by hour, mean(v_i v_j) / (mean(v_i) mean(v_j)) times fewer. What is still
    missing is measured: what clients do at the same hour of different days has the same law without company.
    """
    whole = compared.residual.shape[1] // period * period
    by_hour = (compared.residual[:, :whole] ** 2).reshape(len(inflation), -1, period).mean(axis=1)
    by_hour = (by_hour / np.maximum(by_hour.mean(axis=1, keepdims=True), 1e-9)).astype(np.float64)
    inflation = np.maximum(inflation * (by_hour @ by_hour.T) / period, 1.0)
    rows = evenly(len(inflation), MAX_SHIFTED)
    residual, watched = compared.residual[rows, :whole], compared.watched[rows, :whole]
    spread = np.outer(compared.deviation[rows], compared.deviation[rows]) ** 2 * inflation[np.ix_(rows, rows)]
    square, number = np.zeros(len(rows)), np.zeros(len(rows))
    shifts = period * np.arange(1, whole // period)
    for shift in shifts[evenly(len(shifts), MAX_SHIFTS)]:
        both = (np.roll(watched, shift, axis=1) @ watched.T).astype(np.float64)
        products = (np.roll(residual, shift, axis=1) @ residual.T).astype(np.float64)
        enough = (both >= MIN_SHARED) & ~np.eye(len(rows), dtype=bool)
        score = np.where(enough, products**2 / np.maximum(spread * both, 1e-9), 0.0)
        square += score.sum(axis=0) + score.sum(axis=1)
        number += enough.sum(axis=0) + enough.sum(axis=1)
    mean = float(square.sum() / max(number.sum(), 1.0))
    # A client's own factor where it has many pairs, the fleet's where it has few.
    own = np.full(len(inflation), max(mean, 1.0))
    own[rows] = np.maximum((square + PRIOR_PAIRS * mean) / (number + PRIOR_PAIRS), 1.0)
    return inflation * np.sqrt(np.outer(own, own))


def _tail(
    first: Deviations, second: Deviations, row: Places, column: Places, score: PerPair, inflated: PerPair
) -> PerPair:
    """p-value of the slots that two clients share.

    Shared slots O with expectation E and variance φE are modelled as φ times a Poisson number of mean E/φ. For two
    clients that are mostly present, shared absences are counted instead. For a rare and a common client the normal tail
    is conservative.
    """
    p_value = ndtr(-score)
    for common in (False, True):
        pair = (first.mostly_present[row] == common) & (second.mostly_present[column] == common)
        if pair.any():
            i, j = row[pair], column[pair]
            expected = np.maximum(_products(first.chance(common), second.chance(common), i, j), 1e-6)
            variance = (first.deviation[i].astype(np.float64) * second.deviation[j]) ** 2 * inflated[pair]
            scale, shared = variance / expected, expected + score[pair] * np.sqrt(variance)
            p_value[pair] = np.maximum(p_value[pair], gammainc(shared / scale, expected / scale))
    return p_value


def _products(first: Matrix, second: Matrix, i: Places, j: Places) -> PerPair:
    """Inner products of these pairs of rows, one by one if they are few."""
    if 20 * len(i) > len(first) * len(second):
        return (first @ second.T)[i, j].astype(np.float64)
    return np.array([first[a] @ second[b] for a, b in zip(i, j, strict=True)], np.float64)
