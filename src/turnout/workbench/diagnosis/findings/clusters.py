"""Clients that come and go together, beyond what the activity of the fleet and its cycles explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import xlogy

from turnout.statistics import evenly
from turnout.workbench.diagnosis.findings.cycles import Cycles
from turnout.workbench.diagnosis.findings.pairs import (
    FALSE_LINK_RATE,
    STRICT_LINK_RATE,
    Deviations,
    Matrix,
    compare,
    correlations,
    false_rates,
)
from turnout.workbench.diagnosis.findings.rates import Rates, transitions
from turnout.workbench.diagnosis.findings.run_sums import excess_of, over_runs, per_slot, watched_runs
from turnout.workbench.diagnosis.reading.log import Log

Labels = Int[np.ndarray, " clients"]

MAX_CELLS, MAX_CLIENTS = 15_000_000, 3000  # of the matrix whose rows are compared
MIN_CORRELATION = 0.2  # of a cluster, however false_rates
MIN_RELATIVE_MATCH = 0.7  # of a recruit with the course of a cluster, relative to that of its members
MAX_RECRUITING, MAX_MEASURED = 32, 200  # clusters that recruit, and whose strength is measured
MIN_ROWS = 3  # of a cluster in a sample, as among millions of pairs one is alike by chance, and would recruit others
MIN_CHANGES = 4  # of a client, for it to be compared
MAX_LOG_P_VALUE = np.log(1e-3)  # of an equal course of any two clients, for it not to be chance


@dataclass(frozen=True)
class Clusters:
    """Which clients move together."""

    label: Labels  # cluster of each client, the largest first; -1: moves alone
    sizes: Int[np.ndarray, " clusters"]
    strength: Float[np.ndarray, " clusters"]  # mean correlation of two clients of the cluster
    identical: int  # clients with exactly the same course as another
    dispersion: float  # variance of the number of clients present, over that of independent clients
    sampled: int | None  # clients that were compared pair by pair, if not all

    @property
    def count(self) -> int:
        return len(self.sizes)

    @property
    def share(self) -> float:
        """Share of the fleet that is in a cluster."""
        return float((self.label >= 0).mean())

    @property
    def unit(self) -> Labels:
        """The independent unit of each client, numbered from 0: its cluster, or the client itself."""
        alone = self.label < 0
        return np.where(alone, self.count + np.cumsum(alone) - 1, self.label)


def clusters(log: Log, rates: Rates, cycles: Cycles) -> Clusters:
    """Find groups of clients that move together.

    Clients with exactly the same course are one pattern. Patterns, or a sample of them, are compared pair by pair.
    Significant pairs are joined by average linkage. Clients outside the sample join the cluster that they follow.
    """
    pattern = _patterns(log)
    labels, compared = _link(log, rates, cycles, pattern)
    label = _by_size(labels)
    sizes = np.bincount(label[label >= 0]) if (label >= 0).any() else np.zeros(0, np.int64)
    return Clusters(
        label=label,
        sizes=sizes,
        strength=_strengths(log, label, len(sizes)),
        identical=int((np.bincount(pattern)[pattern] > 1).sum()),
        dispersion=_dispersion(log, rates),
        sampled=compared,
    )


def _moving(log: Log) -> Bool[np.ndarray, " clients"]:
    """Clients that change often enough to be compared."""
    present = log.present
    inner = (present.first > 0).astype(np.int64) + (present.end < log.num_slots)
    return np.bincount(present.client, inner, minlength=log.num_clients) >= MIN_CHANGES


def _telling(log: Log) -> Bool[np.ndarray, " clients"]:
    """Clients whose exact course no other one of the fleet has by chance.

    Another chain with the same transition rates has the same course with their likelihood L. Rhythms make courses
    likelier than chains do, so √L is taken, for all pairs of the fleet.
    """
    moves = transitions(log)
    away, there = moves.off_off + moves.off_on, moves.on_off + moves.on_on
    likelihood = (
        xlogy(moves.off_on, moves.off_on / np.maximum(away, 1))
        + xlogy(moves.off_off, moves.off_off / np.maximum(away, 1))
        + xlogy(moves.on_off, moves.on_off / np.maximum(there, 1))
        + xlogy(moves.on_on, moves.on_on / np.maximum(there, 1))
    )
    return _moving(log) & (likelihood / 2 + 2 * np.log(max(log.num_clients, 1)) < MAX_LOG_P_VALUE)


def _patterns(log: Log) -> Labels:
    """The same number for clients with the same runs, by hashes: a random 64-bit number for every change of state."""
    numbers = np.random.default_rng(0).integers(0, 2**63, (2, log.num_slots + 1), dtype=np.uint64)
    total = np.zeros(len(log.present.client) + 1, np.uint64)
    np.cumsum(numbers[0, log.present.first] + numbers[1, log.present.end], out=total[1:])  # overflow is harmless here
    bounds = np.searchsorted(log.present.client, np.arange(log.num_clients + 1))
    of_client = total[bounds[1:]] - total[bounds[:-1]]
    alone = ~_telling(log)
    _, pattern = np.unique(of_client, return_inverse=True)
    pattern = pattern.ravel().astype(np.int64)
    pattern[alone] = pattern.max(initial=-1) + 1 + np.arange(alone.sum())
    return np.unique(pattern, return_inverse=True)[1].ravel()


def _link(log: Log, rates: Rates, cycles: Cycles, pattern: Labels) -> tuple[Labels, int | None]:
    """Labels before sorting (-1: alone), and the number of patterns compared, if not all."""
    _, first = np.unique(pattern, return_index=True)
    moving = _moving(log)
    candidates = np.sort(first[moving[first]])
    most = max(2, min(MAX_CLIENTS, MAX_CELLS // max(log.num_slots, 1)))
    chosen = candidates
    if len(candidates) > most:
        # Patterns that several clients share come first: they are clusters already and recruit others.
        shared = np.bincount(pattern)[pattern[candidates]]
        top = candidates[np.argsort(-shared, kind="stable")][: most // 4]
        chosen = np.union1d(top[np.bincount(pattern)[pattern[top]] > 1], candidates[evenly(len(candidates), most)])
    group = np.full(log.num_clients, -1, np.int64)
    if len(chosen) >= 2:
        compared = compare(log, cycles, chosen)
        group[chosen] = _groups(compared)
        if len(chosen) < len(candidates):
            group[chosen] = np.where(_rows_of_group(group[chosen]) < MIN_ROWS, -1, group[chosen])
            _recruit(log, rates, group, chosen, compared.residual)
    label = _spread(group, pattern)
    return label, None if len(chosen) == len(candidates) else len(chosen)


def _groups(compared: Deviations) -> Int[np.ndarray, " rows"]:
    """Clusters of rows; -1 for rows that move alone."""
    correlation = correlations(compared)
    rate = false_rates(compared, correlation)
    most = STRICT_LINK_RATE if compared.period is None else FALSE_LINK_RATE
    linked = (rate <= most) & (correlation >= MIN_CORRELATION)
    group = np.full(len(correlation), -1, np.int64)
    member = np.flatnonzero(linked.any(axis=1))
    if len(member) < 2:
        return group
    # Cut where the mean correlation of two groups is half that of a typical link; within clusters it is about one.
    cut = max(MIN_CORRELATION, 0.5 * float(np.median(correlation[linked])))
    distance = np.clip(1 - correlation[np.ix_(member, member)], 0, 2)
    np.fill_diagonal(distance, 0.0)
    cluster = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - cut, "distance")
    surest = np.ones(cluster.max() + 1)
    np.minimum.at(surest, cluster, np.where(linked, rate, 1.0)[np.ix_(member, member)].min(axis=1))
    size = np.bincount(cluster)
    joined = ((size > 2) | ((size == 2) & (surest <= STRICT_LINK_RATE)))[cluster]
    group[member[joined]] = cluster[joined]
    return group


def _rows_of_group(group: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
    """Number of rows in the group of each row; 0 for those that move alone."""
    number = np.bincount(group + 1, minlength=1)
    number[0] = 0
    return number[group + 1]


def _recruit(log: Log, rates: Rates, group: Labels, chosen: Int[np.ndarray, " rows"], residual: Matrix) -> None:
    """Assign clients outside the sample to the cluster whose mean course they follow."""
    observed, count = watched_runs(log), log.num_clients
    names, sizes = np.unique(group[chosen][group[chosen] >= 0], return_counts=True)
    best, join = np.zeros(count), np.full(count, -1, np.int64)
    deviation = np.sqrt(np.maximum(rates.on * (1 - np.nan_to_num(rates.pi)), 1e-9))
    for name in names[np.argsort(-sizes)][:MAX_RECRUITING]:
        course = residual[group[chosen] == name].mean(axis=0).astype(np.float64)
        shared = over_runs(log.present, course, count) - np.nan_to_num(rates.pi) * over_runs(observed, course, count)
        match = shared / deviation / np.sqrt(np.maximum(over_runs(observed, course**2, count), 1e-9))
        own = np.median(match[chosen][group[chosen] == name])
        better = (match > best) & (match > max(MIN_CORRELATION, MIN_RELATIVE_MATCH * own))
        best, join = np.where(better, match, best), np.where(better, name, join)
    outside = np.ones(count, bool)
    outside[chosen] = False
    group[outside & _moving(log)] = join[outside & _moving(log)]


def _spread(group: Labels, pattern: Labels) -> Labels:
    """All clients of a pattern share a cluster; a shared pattern without a cluster becomes one."""
    of_pattern = np.full(pattern.max(initial=-1) + 1, -1, np.int64)
    np.maximum.at(of_pattern, pattern, group)
    unassigned = (np.bincount(pattern) > 1) & (of_pattern < 0)
    of_pattern[unassigned] = of_pattern.max(initial=-1) + 1 + np.arange(unassigned.sum())
    return of_pattern[pattern]


def _by_size(label: Labels) -> Labels:
    """Number clusters from the largest to the smallest; single clients are no cluster."""
    inside = label >= 0
    if not inside.any():
        return label
    _, place, size = np.unique(label[inside], return_inverse=True, return_counts=True)
    rank = np.empty(len(size), np.int64)
    rank[np.argsort(-size, kind="stable")] = np.arange(len(size))
    ranked = np.full(len(label), -1, np.int64)
    ranked[inside] = np.where(size[place] > 1, rank[place], -1)
    return ranked


def _strengths(log: Log, label: Labels, count: int) -> Float[np.ndarray, " clusters"]:
    """Mean correlation of the presence of two clients, from at most fifty clients per cluster."""
    strengths = np.ones(count)
    order = np.argsort(label, kind="stable")
    begin = np.searchsorted(label[order], np.arange(count + 1))
    for c in range(min(count, MAX_MEASURED)):
        member = order[begin[c] : begin[c + 1]]
        member = member[evenly(len(member), 50)]
        present, watched = log.matrix(member).astype(np.float32), log.watched_matrix(member).astype(np.float32)
        mean = present.sum(axis=1, keepdims=True) / np.maximum(watched.sum(axis=1, keepdims=True), 1)
        pairs = correlations(Deviations(watched, mean * watched, (present - mean) * watched))
        strengths[c] = pairs.sum() / max(len(member) * (len(member) - 1), 1)
    return strengths


def _dispersion(log: Log, rates: Rates) -> float:
    excess, watched = excess_of(log, rates.pi)
    independent = per_slot(watched_runs(log), log.num_slots, rates.variance)
    return float(((excess * watched) ** 2).sum() / max(independent.sum(), 1e-300))
