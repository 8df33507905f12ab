"""Each client's own time in blocks, and how much more these vary in the long run than those of chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from turnout.workbench.diagnosis.findings.cycles import Cycles
from turnout.workbench.diagnosis.findings.rates import Counts
from turnout.workbench.diagnosis.findings.run_sums import PerClient, own_time, per_block
from turnout.workbench.diagnosis.reading.log import Log

BLOCKS = 12
FEWEST_LAGS = 4  # from which on memory can be told from change
MAX_ERROR_RATIO = 0.8  # of the curve of memory to that of change
FADINGS = np.linspace(0.0, 0.8, 17)  # ρ, of memory from block to block; memory of half a log looks like change

Lags = Float[np.ndarray, " lags"]


@dataclass(frozen=True)
class Blocks:
    """Each client's own time in blocks of equal length."""

    length: Counts
    present: Float[np.ndarray, "clients blocks"]  # slots of presence; 0 in blocks that are not full
    full: Bool[np.ndarray, "clients blocks"]


@dataclass(frozen=True)
class Slowness:
    """Covariance of blocks, over that of chains: A where they are the same, plus S ρ^h at lag h."""

    level: float  # A
    slow: float = 0.0  # S
    fading: float = 0.0  # ρ

    @property
    def long_run(self) -> float:
        """Of the variance of long sums."""
        return self.level + self.slow * (1 + self.fading) / (1 - self.fading)

    @property
    def of_bridges(self) -> float:
        """Of the mean square of sums of blocks minus their mean, over a log: memory is seen in it only in part."""
        away = np.abs(np.subtract.outer(np.arange(BLOCKS), np.arange(BLOCKS)))
        sums = np.tril(np.ones((BLOCKS, BLOCKS))) @ (np.eye(BLOCKS) - 1 / BLOCKS)
        slow = np.trace(sums @ self.fading**away @ sums.T) / np.trace(sums @ sums.T)
        return float(self.level + self.slow * slow)


def blocks_of(log: Log, cycles: Cycles) -> Blocks:
    """About twelve blocks of each client's own time, each a whole number of cycles if there are cycles."""
    present, observed = own_time(log)
    length = np.maximum(np.ceil(observed.length / BLOCKS), 1)
    short = [cycle.period for cycle in cycles.found if cycle.period * 4 <= log.num_slots]
    if short:
        length = np.round(np.maximum(np.ceil(length / max(short)), 1) * max(short))
    lengths = length.astype(np.int64)
    present_slots = per_block(present, lengths, log.num_clients, BLOCKS)
    watched = per_block(observed, lengths, log.num_clients, BLOCKS)
    full = watched == lengths[:, None]
    return Blocks(lengths, np.where(full, present_slots, 0.0), full)


def memory_of(blocks: Blocks, pi: PerClient, lam: PerClient) -> Slowness:
    """How much more the clients' presence varies than that of chains, as far as memory explains it.

    How unlike blocks are at lag h, over what chains give, tells memory from change. With memory it levels off, as
    A + S (1 - ρ^h). With change it goes on growing, as A + B h (steps, each client at its own time) or A + B h² (a
    trend, or steps of all at one time): then A is all that memory explains. Slowness must fit clearly better.
    """
    unlike = _unlikeness(blocks, pi, lam)
    if len(unlike) < FEWEST_LAGS:
        return Slowness(float(unlike[0]) if len(unlike) else 1.0)
    lag = np.arange(1, len(unlike) + 1)
    by_memory = {float(fading): _fit(1 - fading**lag, unlike) for fading in FADINGS}
    fading = min(by_memory, key=lambda each: by_memory[each][2])
    level, slope, error = by_memory[fading]
    least = min(_fit(lag**power, unlike)[2] for power in (1.0, 2.0))
    if error < MAX_ERROR_RATIO * least:
        return Slowness(level, slope, fading)
    return Slowness(float(unlike[0]))


def _unlikeness(blocks: Blocks, pi: PerClient, lam: PerClient) -> Lags:
    """Mean square of differences between blocks at lags 1, 2, … up to half of the log, over that of chains.

    A block of L slots of a chain has variance v [L (1+λ)/(1-λ) - 2λ (1-λ^L)/(1-λ)²], v = π(1-π), and covariance
    v λ (1-λ^L)²/(1-λ)² λ^((h-1) L) with the one at lag h. Sudden change at few places does not affect the median.
    """
    length, number = blocks.length, blocks.full.shape[1]
    power = np.sign(lam) ** (length % 2) * np.abs(lam) ** length
    variance = length * (1 + lam) / (1 - lam) - 2 * lam * (1 - power) / (1 - lam) ** 2
    covariance = lam * ((1 - power) / (1 - lam)) ** 2
    unlike = []
    for lag in range(1, number // 2 + 1):
        both = blocks.full[:, lag:] & blocks.full[:, :-lag]
        chains = 2 * pi * (1 - pi) * np.maximum(variance - covariance * power ** (lag - 1), 0)
        expected = (both * chains[:, None]).sum(axis=0)
        measured = ((blocks.present[:, lag:] - blocks.present[:, :-lag]) ** 2 * both).sum(axis=0)
        places = expected > 0.1 * expected.max(initial=0.0)
        if not places.any() or expected.max() <= 0:
            break
        unlike.append(np.median(measured[places] / expected[places]))
    return np.array(unlike)


def _fit(course: Lags, unlike: Lags) -> tuple[float, float, float]:
    """Level and slope, neither below zero, of the best line through these points, and its mean square error."""
    centred = course - course.mean()
    slope = float(centred @ unlike) / max(float(centred @ centred), 1e-12)
    slope = max(slope, 0.0)
    level = float(unlike.mean() - slope * course.mean())
    if level < 0:
        level, slope = 0.0, max(float(course @ unlike / (course @ course)), 0.0)
    return level, slope, float(((unlike - level - slope * course) ** 2).mean())
