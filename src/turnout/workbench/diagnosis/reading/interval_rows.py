"""Logs with one row per stretch of time: client, start, end and optionally its state."""

from __future__ import annotations

import numpy as np

from turnout.availability.recorded.time_slots import MAX_SLOTS, slots_covered, slots_within
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.log import AVAILABILITY, Log, Runs, Shows
from turnout.workbench.diagnosis.reading.round_rows import mean_of
from turnout.workbench.diagnosis.reading.round_times import MUST_BE_TIME, on_the_clock, refuse_milliseconds
from turnout.workbench.diagnosis.reading.row_codes import Rows, warn_of_dropped

SLOT_SECONDS = 600.0


# Long: half of it is the log that it returns.
def from_intervals(rows: Rows, slot_seconds: float | None) -> Log:
    """A client is present in a slot if its state in the middle of the slot is 1; slot 0 begins with the earliest row.

    With a column `state`, time without a row was not watched. Without that column every row means that the client was
    present, and all time from the first to the last row was watched.
    """
    slot = SLOT_SECONDS if slot_seconds is None else slot_seconds
    client, start, end, on, used, warnings = _check_rows(rows)
    origin, seconds = float(start.min()), float(end.max() - start.min())
    if seconds / slot > MAX_SLOTS:
        raise LogError(
            f"{rows.table.path}: the times go from {origin:.15g} to {end.max():.15g} s, {seconds / slot:.3g} slots of "
            f"{slot:g} s; at most {MAX_SLOTS:,} can be read: are they seconds? Or take longer slots"
        )
    if seconds < slot:
        raise LogError(
            f"{rows.table.path}: the log lasts {seconds:g} s, less than one slot of {slot:g} s; take shorter slots"
        )
    num_slots = int(slots_within(np.array([seconds]), slot)[0])
    first, after = slots_covered(start - origin, end - origin, slot)
    after = np.minimum(after, num_slots)
    present, watched = Runs.merge(client[on], first[on], after[on]), Runs.merge(client, first, after)
    if not len(watched.client):
        raise LogError(f"{rows.table.path}: no row covers the middle of a slot of {slot:g} s; take shorter slots")
    clock_start, dated = on_the_clock(origin)
    return Log(
        rows.names["client"],
        num_slots,
        present,
        watched=watched if "state" in rows.numbers else None,
        slot_seconds=slot,
        clock_start=clock_start,
        dated=dated,
        begins=origin + slot * np.arange(num_slots),
        sizes=mean_of(rows, "size", used),
        warnings=tuple(warnings),
        shows=Shows(
            AVAILABILITY,
            "it has stretches of time",
            surely=True,
            otherwise="" if "state" in rows.numbers else "If they are pieces of work, say --shows work.",
        ),
    )


def _check_rows(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Client, start, end and state of each row that counts, which rows those are, and warnings."""
    client, start, end = rows.codes["client"], rows.numbers["start"], rows.numbers["end"]
    blank = (client < 0) & np.isnan(start) & np.isnan(end)
    for column in ("start", "end"):
        rows.refuse_text(column, MUST_BE_TIME)
        rows.refuse(~blank & ~np.isfinite(rows.numbers[column]), lambda r, c=column: f"has no {c}; every row needs one")
        refuse_milliseconds(rows, column)
    rows.refuse(~blank & (client < 0), lambda r: "has no client; every row needs one")
    rows.refuse(end < start, lambda r: f"ends at {end[r]:.15g} s, before its start {start[r]:.15g} s; must be later")
    on = _states(rows, blank)
    momentary = end == start
    repeated, more = _refuse_conflicts(rows, ~(blank | momentary), on)
    used = ~(blank | momentary | repeated)
    warnings = warn_of_dropped(rows, blank, "rows without client, start and end")
    warnings += warn_of_dropped(rows, momentary, "rows that end when they start")
    warnings += warn_of_dropped(rows, repeated, "duplicate rows")
    return client[used], start[used], end[used], on[used], used, [*warnings, *more]


def _states(rows: Rows, blank: np.ndarray) -> np.ndarray:
    if "state" not in rows.numbers:
        return np.ones(rows.count, bool)
    state = rows.numbers["state"]
    wrong = ~blank & (state != 0) & (state != 1)
    rows.refuse(wrong, lambda r: f"has state = {rows.show('state', r)}; must be 0 or 1")
    return state == 1


def _refuse_conflicts(rows: Rows, used: np.ndarray, on: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Which rows repeat an earlier one, and warnings; refuse a client that is present and absent at once."""
    which = np.flatnonzero(used)
    if not len(which):
        raise LogError(f"{rows.table.path}: no row lasts any time; ends must come after starts")
    client, start, end = rows.codes["client"][which], rows.numbers["start"][which], rows.numbers["end"][which]
    order = np.lexsort((end, start, client))
    back = _goes_back(rows, which, client, start)
    which, client, start, end = which[order], client[order], start[order], end[order]
    same_client = np.r_[False, client[1:] == client[:-1]]
    latest = _latest_so_far(client, end)  # index of the earlier row that ends last
    overlaps = same_client & (start < end[latest])
    repeats = same_client & np.r_[False, (start[1:] == start[:-1]) & (end[1:] == end[:-1])]
    repeats &= on[which] == on[np.r_[which[:1], which[:-1]]]
    conflict = overlaps & (on[which] != on[which[latest]])
    bad, other = np.zeros(rows.count, bool), np.zeros(rows.count, np.int64)
    bad[which[conflict]], other[which] = True, which[latest]
    rows.refuse(
        bad,
        lambda r: (
            f"says state {on[r]:d} from {rows.numbers['start'][r]:.15g} to {rows.numbers['end'][r]:.15g} s, but "
            f"{rows.table.place(int(other[r]))} says state {on[other[r]]:d} from "
            f"{rows.numbers['start'][other[r]]:.15g} to {rows.numbers['end'][other[r]]:.15g} s; "
            "a client has one state at a time"
        ),
    )
    repeated, merged = np.zeros(rows.count, bool), np.zeros(rows.count, bool)
    repeated[which[repeats]] = True
    merged[which[overlaps & ~repeats]] = True
    sentences = []
    if merged.any():
        place = rows.table.place(int(np.argmax(merged)))
        sentences.append(f"{merged.sum():,} rows overlap an earlier one of their client and were merged, e.g. {place}")
    return repeated, [*back, *sentences]


def _goes_back(rows: Rows, which: np.ndarray, client: np.ndarray, start: np.ndarray) -> list[str]:
    """A warning if the rows of a client are not sorted by time."""
    order = np.argsort(client, kind="stable")
    falls = (client[order][1:] == client[order][:-1]) & (start[order][1:] < start[order][:-1])
    if not falls.any():
        return []
    row = int(which[order][1:][falls].min())
    return [f"time goes back at {rows.table.place(row)}, and in {falls.sum():,} rows in all; rows were sorted by time"]


def _latest_so_far(client: np.ndarray, end: np.ndarray) -> np.ndarray:
    """For rows sorted by client and start: the index of the earlier row of the same client that ends last."""
    count = len(end)
    rank = np.empty(count, np.int64)
    by_end = np.argsort(end, kind="stable")
    rank[by_end] = np.arange(count)
    lifted = np.maximum.accumulate(rank + client.astype(np.int64) * count)
    return by_end[np.r_[lifted[:1], lifted[:-1]] % count]
