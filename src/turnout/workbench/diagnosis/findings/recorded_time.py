"""Windows of recording: in which slots enough of the fleet was watched, and whole days of each client side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from turnout.availability.recorded.time_slots import DAY
from turnout.workbench.diagnosis.findings.run_sums import per_slot, watched_runs
from turnout.workbench.diagnosis.reading.log import Log, Runs

MIN_FLEET_SHARE = 0.5  # of the clients, watched in a slot that shows the whole fleet
MIN_SLOT_SHARE = 0.5  # of the slots, which must show the whole fleet
EVERY_SLOT = "every slot"
ARRIVED = "the updates that arrived, as not everybody present was asked"
ENOUGH_WATCHED = "the slots in which at least half of the clients were watched"
WHOLE_DAYS = "whole days of each client, repeated, as the clients were watched on different days"
FEW_WATCHED = "every slot, though few of the clients were watched at a time"


def side_by_side(log: Log) -> tuple[Log, Bool[np.ndarray, " slots"], str]:
    """The log in which clients may be weighed against each other, which of its slots count, and the basis in words.

    Where only a few clients are watched, they share the whole weight of a slot: windows of recording are then taken for
    absence. So slots count if half of the clients were watched. If these are few, each client's own whole days are
    repeated on a common clock.
    """
    everything = np.ones(log.num_slots, bool)
    if log.watched is None:
        return log, everything, EVERY_SLOT
    watched = per_slot(log.watched, log.num_slots)
    enough = watched >= MIN_FLEET_SHARE * log.num_clients
    if enough.sum() >= MIN_SLOT_SHARE * (watched > 0).sum():
        return log, enough, EVERY_SLOT if enough.all() else ENOUGH_WATCHED
    day = 0 if log.slot_seconds is None else round(DAY / log.slot_seconds)
    if day < 2 or abs(day * (log.slot_seconds or 0.0) - DAY) > 1e-6 * DAY:
        return log, everything, FEW_WATCHED
    repeated = whole_days(log, day)
    return repeated, np.ones(repeated.num_slots, bool), WHOLE_DAYS


def whole_days(log: Log, day: int) -> Log:
    """Each client from the midnight before it was first watched, repeated after its own number of whole days.

    The hours after the last whole day fill those between midnight and the first slot, as in the process `trace`.
    """
    observed, start = watched_runs(log), round(log.clock_start / (log.slot_seconds or DAY / day)) % day
    first, last = np.full(log.num_clients, log.num_slots), np.zeros(log.num_clients, np.int64)
    np.minimum.at(first, observed.client, observed.first)
    np.maximum.at(last, observed.client, observed.end)
    midnight = (first + start) // day * day - start
    length = np.maximum(-(-(last - first) // day), 1) * day
    num_slots = int(length.max())
    turns = range(-1, int(num_slots // length.min()) + 1)

    def repeated(runs: Runs) -> Runs:
        shifts = [(turn * length - midnight)[runs.client].astype(np.int32) for turn in turns]
        moved = (Runs(runs.client, runs.first + shift, runs.end + shift) for shift in shifts)
        return Runs.union([part.clip(0, num_slots) for part in moved])

    runs = {"present": repeated(log.present), "watched": repeated(observed)}
    return replace(log, num_slots=num_slots, clock_start=0.0, begins=None, **runs)
