"""Stretches in which nobody came though clients would have: the server was down, or nothing was recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from turnout.workbench.diagnosis.findings.cycles import Cycles, hours_of_cycle
from turnout.workbench.diagnosis.findings.rates import Rates
from turnout.workbench.diagnosis.findings.run_sums import PerClient, PerSlot, per_slot, representative, watched_runs
from turnout.workbench.diagnosis.reading.log import Log, Runs

Slots = Int[np.ndarray, " stretches"]
PerStretch = Float[np.ndarray, " stretches"]

MAX_LOG_P_VALUE = np.log(1e-6)  # below it, an empty stretch is not chance
MIN_UNITS = 10  # clients that move alone and groups, for their absence not to be their own doing
MAX_OUTAGES = 20  # more are the way of the fleet
MAX_SHARE = 0.5  # of the log
LEAST_SIDE = 10  # slots on either side of a stretch that tell of the turnout around it
MAX_RATE = 0.999  # of a client that is always there


@dataclass(frozen=True)
class Outages:
    """Stretches without anybody that the clients do not explain."""

    first: Slots
    end: Slots  # the slot after the last

    @property
    def found(self) -> bool:
        return len(self.first) > 0

    @property
    def slots(self) -> int:
        """Number of slots in all stretches."""
        return int((self.end - self.first).sum())


def outages(log: Log, rates: Rates, cycles: Cycles, unit: Int[np.ndarray, " clients"]) -> Outages:
    """Empty stretches that are beyond chance if the clients of each `unit` move as one and units are independent.

    Clients tell of a stretch if they had come before it and came after it: a fleet that grows from nothing, or that
    ends, is no outage.

    A unit of rate π and wake rate a = π (1 - λ) is absent at the first slot of a stretch with probability 1 - π and at
    each further one with 1 - a. Both rates are scaled by the fleet's turnout at that hour of the cycle, and by that
    around the stretch over the usual one: a week may be unlike others, and an outage is sudden.
    """
    watched = per_slot(watched_runs(log), log.num_slots)
    log = between_presences(log)
    members = per_slot(watched_runs(log), log.num_slots)
    counted = representative(watched) & (members >= MIN_UNITS)
    empty = Runs.from_matrix(((per_slot(log.present, log.num_slots) == 0) & counted)[None])
    none = Outages(empty.first[:0], empty.end[:0])
    if unit.max(initial=-1) + 1 < MIN_UNITS or not len(empty.first):
        return none
    pi, level = np.nan_to_num(rates.pi), _levels(log, cycles)
    beyond = _log_chance(log, rates, unit, level, empty) < MAX_LOG_P_VALUE
    suspected = Runs(empty.client[beyond], empty.first[beyond], empty.end[beyond])
    around = _turnout_around(log, pi, level, suspected, cycles)
    beyond[beyond] = _log_chance(log, rates, unit, level * around, suspected) < MAX_LOG_P_VALUE
    result = Outages(empty.first[beyond].astype(np.int64), empty.end[beyond].astype(np.int64))
    usual = len(result.first) > MAX_OUTAGES or result.slots > MAX_SHARE * (watched > 0).sum()
    return none if usual else result


def between_presences(log: Log) -> Log:
    """The log in which each client is watched from its first presence to its last."""
    first, end = np.full(log.num_clients, log.num_slots), np.zeros(log.num_clients, np.int64)
    np.minimum.at(first, log.present.client, log.present.first)
    np.maximum.at(end, log.present.client, log.present.end)
    observed = watched_runs(log)
    return replace(log, watched=observed.clip(first[observed.client], end[observed.client]))


def _levels(log: Log, cycles: Cycles) -> PerSlot:
    """The fleet's mean turnout at the hour of each slot, relative to its mean over all hours."""
    hour, period = hours_of_cycle(log, cycles)
    present = np.bincount(hour, per_slot(log.present, log.num_slots), minlength=period or 1)
    watched = np.bincount(hour, per_slot(watched_runs(log), log.num_slots), minlength=period or 1)
    mean = max(float(present.sum() / max(watched.sum(), 1)), 1e-12)
    return (present / np.maximum(watched, 1) / mean)[hour]


def _log_chance(log: Log, rates: Rates, unit: Int[np.ndarray, " clients"], level: PerSlot, empty: Runs) -> PerStretch:
    """Logarithm of the probability that nobody comes in each of these stretches."""
    pi = np.nan_to_num(rates.pi)
    begins = _log_absent(log, pi, unit, level)
    goes_on = np.r_[0.0, np.cumsum(_log_absent(log, pi * (1 - np.maximum(rates.lam, 0)), unit, level))]
    return begins[empty.first] + goes_on[empty.end] - goes_on[empty.first + 1]


def _turnout_around(log: Log, pi: PerClient, level: PerSlot, empty: Runs, cycles: Cycles) -> PerSlot:
    """In each of these stretches the turnout on one side of it over the usual one, on the side where it is less.

    A side is one turn of the shortest cycle long, and as long as the stretch. Other stretches are passed over.
    """
    inside = np.zeros(log.num_slots, bool)
    for first, end in zip(empty.first, empty.end, strict=True):
        inside[first:end] = True
    usual = per_slot(watched_runs(log), log.num_slots, pi) * level
    seen, expected = (
        np.r_[0.0, np.cumsum(values[~inside])] for values in (per_slot(log.present, log.num_slots), usual)
    )
    turn = round(min((cycle.period for cycle in cycles.found), default=0))
    factor = np.ones(log.num_slots)
    for first, end in zip(empty.first, empty.end, strict=True):
        place, length = int((~inside[:first]).sum()), max(end - first, turn, LEAST_SIDE)
        sides = ((max(place - length, 0), place), (place, min(place + length, len(seen) - 1)))
        shares = [(seen[b] - seen[a] + 1) / (expected[b] - expected[a] + 1) for a, b in sides]
        factor[first:end] = min(1.0, *shares)
    return factor


def _log_absent(log: Log, rate: PerClient, unit: Int[np.ndarray, " clients"], level: PerSlot) -> PerSlot:
    """Logarithm of the probability that no watched unit is there, in each slot."""
    members = np.bincount(unit)
    rate = np.bincount(unit, rate) / members

    def absent(at_level: float) -> Float[np.ndarray, " units"]:
        return np.log1p(-np.minimum(rate * at_level, MAX_RATE))

    # A unit of which half is watched counts half. The level is a factor, interpolated between a few.
    usual = per_slot(watched_runs(log), log.num_slots, (absent(1.0) / members)[unit])
    grid = np.linspace(0.0, max(float(level.max()), 1e-9), 65)
    factor = np.array([absent(each).sum() for each in grid]) / min(float(absent(1.0).sum()), -1e-300)
    return usual * np.interp(level, grid, factor)


def leave_out(log: Log, outages: Outages) -> Log:
    """The log with these stretches not watched."""
    if not outages.found:
        return log
    observed, begins, ends = watched_runs(log), outages.end.tolist(), outages.first.tolist()
    stretches = zip([0, *begins], [*ends, log.num_slots], strict=True)
    return replace(log, watched=Runs.union([observed.clip(begin, end) for begin, end in stretches]))
