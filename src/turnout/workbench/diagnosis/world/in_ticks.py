"""The fitted world tick by tick: who is there, and how long work takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnout import availability
from turnout.availability.base import Process
from turnout.availability.markov import lowest_correlation
from turnout.workbench.diagnosis.findings.all_findings import Findings
from turnout.workbench.diagnosis.reading.log import Log, LoggedWork
from turnout.workbench.diagnosis.world.fit import Fitted, feasible
from turnout.workbench.diagnosis.world.fitted_durations import FittedDurations, fit_durations
from turnout.workbench.diagnosis.world.likeness import part

LEAST_MEMORY = float(np.exp(-1.0))  # correlation over a round: who is drawn anew every round stays for one
ALWAYS = "paces are compared as if everybody idle were there: a log of work without rounds does not say who was away"
MEMORYLESS = "rests between participations are left out of the world in ticks"


@dataclass(frozen=True)
class TimedWorld:
    """A world whose tick is shorter than a round: availability by name and arguments, its rates, and durations."""

    kind: str  # a name in turnout.availability
    parameters: Mapping[str, Any]
    durations: FittedDurations
    pi: np.ndarray
    lam: np.ndarray  # from one tick to the next
    clients: np.ndarray  # which of the log's
    notes: tuple[str, ...]

    def process(self) -> Process:
        """The availability."""
        return getattr(availability, self.kind)(len(self.clients), **self.parameters)


def timed_world(log: Log, findings: Findings, fitted: Fitted, chosen: np.ndarray) -> TimedWorld | None:
    """The fitted world of the chosen clients with the durations of the log; None if it does not have any.

    A chain with correlation λ from slot to slot has λ^(tick/slot) from tick to tick. Where hardly any is left after a
    slot, a state is taken to last for about one.
    """
    if log.work is None or findings.work is None:
        return None
    lengths = fit_durations(log.work, findings.work, chosen)
    if not log.work.in_rounds:
        ones = np.ones(len(chosen))
        return TimedWorld("bernoulli", {"pi": 1.0}, lengths, ones, 0 * ones, chosen, (ALWAYS,))
    ratio = lengths.tick_seconds / (log.slot_seconds or _length_of_rounds(log.work))
    pi, lam = (each[chosen] for each in feasible(findings.rates))
    lam = _per_tick(pi, lam, ratio)
    kind, parameters, notes = "markov", {"pi": pi.tolist(), "lam": lam.tolist()}, ()
    own = dict(part(fitted, chosen).parameters) if fitted.kind in ("clustered", "diurnal") else {}
    if fitted.kind == "clustered":
        mean, memory = np.asarray(own["pi"]), np.asarray(own["lam"])
        kind, parameters = "clustered", own | {"lam": _per_tick(mean, memory, ratio).tolist()}
    elif fitted.kind == "diurnal":
        memory = np.clip(np.asarray(own["lam"], np.float64), LEAST_MEMORY, None) ** min(ratio, 1.0)
        day = max(2, round(own["rounds_per_day"] / ratio))
        kind, parameters = "diurnal", own | {"rounds_per_day": day, "lam": _rounded(memory).tolist()}
    elif fitted.kind == "minimum_separation":
        notes = (MEMORYLESS,)
    if kind == "markov" and (pi == 1).all():
        kind, parameters = "bernoulli", {"pi": 1.0}
    return TimedWorld(kind, parameters, lengths, pi, lam, chosen, notes)


def _per_tick(pi: np.ndarray, lam: np.ndarray, ratio: float) -> np.ndarray:
    """λ from tick to tick, with six digits, in the range that a chain can have; 0 for a client that never leaves."""
    found = _rounded(np.maximum(lam, LEAST_MEMORY if ratio < 1 else 0.0) ** ratio)
    return np.where(pi == 1, 0.0, np.clip(found, lowest_correlation(pi), 0.999999))


def _rounded(lam: np.ndarray) -> np.ndarray:
    return np.trunc(lam * 1e6) / 1e6


def _length_of_rounds(work: LoggedWork) -> float:
    """The median over rounds of the longest work in each: how long a round lasts that waits for all."""
    longest = np.zeros(int(work.slot.max()) + 1)
    np.maximum.at(longest, work.slot, work.seconds)
    return float(np.median(longest[longest > 0]))
