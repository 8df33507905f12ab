"""Clients that came late, or left for good."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int
from scipy.special import betaln

from turnout.availability.recorded.time_slots import DAY
from turnout.workbench.diagnosis.findings.absences import absences, chance_of_absence
from turnout.workbench.diagnosis.findings.cycles import Cycles
from turnout.workbench.diagnosis.findings.rates import PRIOR_LEAVE, PRIOR_STAY, Counts, discoveries, transitions
from turnout.workbench.diagnosis.findings.run_sums import watched_runs
from turnout.workbench.diagnosis.reading.log import Log

FALSE_CHURN_RATE = 0.01  # accepted share of wrongly named clients, in each of two tests
MIN_RATIO = 2.0  # of an absence to the longest in between, and to a cycle
WEEK = 7 * DAY


@dataclass(frozen=True)
class Churn:
    """Who came late and who left, and when."""

    arrived_late: Bool[np.ndarray, " clients"]  # first seen later than their rates explain
    vanished: Bool[np.ndarray, " clients"]  # last seen earlier than their rates explain
    first: Counts  # slot of the first presence, 0 for clients that never came
    end: Counts  # the slot after the last presence, the end of the log for clients that never came


def churn(log: Log, cycles: Cycles | None = None) -> Churn:
    """Find clients whose absence at the beginning, or at the end, is longer than their absences in between explain.

    It must be so by three standards, as no law of absences is known in advance:

    - by chains. If the wake rate a has the law Beta(α, β), given the time in between, an absence of f slots has
      probability E(1 - a)^f = B(α, β + f) / B(α, β);
    - by absences with tails as heavy as those of the fleet, see `chance_of_absence`;
    - and it is at least twice as long as any absence in between, and as a cycle of the fleet, a week with a clock.
    """
    count, present, moves = log.num_clients, log.present, transitions(log)
    ever_present = np.bincount(present.client, minlength=count) > 0
    first, end = np.zeros(count, np.int64), np.full(count, log.num_slots, np.int64)
    end[present.client] = present.end  # runs are sorted, so the last one of a client stays
    first[present.client[::-1]] = present.first[::-1]
    before, after = _watched_outside(log, first, end)
    leave = np.maximum(moves.off_on - (before > 0), 0) + PRIOR_LEAVE
    stay = np.maximum(moves.off_off - before - after, 0) + PRIOR_STAY
    log_norm = betaln(leave, stay)
    inner, least = absences(log), _least_absence(log, cycles)

    def unlikely(absence: Counts) -> Bool[np.ndarray, " clients"]:
        by_chains = np.exp(betaln(leave, stay + absence) - log_norm)
        long = ever_present & (absence >= np.maximum(MIN_RATIO * inner.longest, least))
        suspected = np.flatnonzero(long & (by_chains < FALSE_CHURN_RATE))
        if not len(suspected):
            return np.zeros(count, bool)
        chance = np.maximum(chance_of_absence(log, inner, suspected, absence), by_chains)
        return discoveries(np.where(long, chance, 1.0), FALSE_CHURN_RATE) & long

    return Churn(unlikely(before), unlikely(after), first, end)


def _least_absence(log: Log, cycles: Cycles | None) -> float:
    """The shortest absence, in slots, that no cycle explains."""
    found = () if cycles is None else cycles.found
    week = 0.0 if log.slot_seconds is None else WEEK / log.slot_seconds
    return MIN_RATIO * max([week / MIN_RATIO, *(cycle.period for cycle in found)])


def while_members(log: Log, changes: Churn) -> Log:
    """The log in which clients are not watched before they joined and after they left."""
    if not (changes.arrived_late | changes.vanished).any():
        return log
    observed = watched_runs(log)
    begin = np.where(changes.arrived_late, changes.first, 0)[observed.client]
    end = np.where(changes.vanished, changes.end, log.num_slots)[observed.client]
    return replace(log, watched=observed.clip(begin, end))


def _watched_outside(log: Log, first: Counts, end: Counts) -> tuple[Counts, Counts]:
    """Watched slots of each client before its first presence and after its last."""
    observed = watched_runs(log)

    def number(length: Int[np.ndarray, " runs"]) -> Counts:
        return np.bincount(observed.client, np.maximum(length, 0), minlength=log.num_clients).astype(np.int64)

    before = np.minimum(observed.end, first[observed.client]) - observed.first
    return number(before), number(observed.end - np.maximum(observed.first, end[observed.client]))
