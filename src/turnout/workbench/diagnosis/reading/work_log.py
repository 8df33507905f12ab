"""Logs of work without rounds, as of a server that asks whoever is idle: client, started, ended or duration."""

from __future__ import annotations

import numpy as np

from turnout.availability.recorded.time_slots import MAX_SLOTS
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.log import PARTICIPATION, Log, Runs, Shows
from turnout.workbench.diagnosis.reading.round_rows import count_of, mean_of
from turnout.workbench.diagnosis.reading.round_times import on_the_clock
from turnout.workbench.diagnosis.reading.row_codes import Rows, warn_of_dropped
from turnout.workbench.diagnosis.reading.work_rows import check_times, work_of

SLOTS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600)  # seconds
MOST_SLOTS = 100_000  # if the length of a slot is not given


# Long: half of it is the log that it returns.
def from_work(rows: Rows, slot_seconds: float | None, stated: bool) -> Log:
    """A client takes part in the slots in which it is at work; its update arrives in the slot in which it ends.

    A slot is about as long as the median piece of work, if its length is not given.
    """
    check_times(rows)
    client, start = rows.codes["client"], rows.numbers["start"]
    blank = (client < 0) & np.isnan(start)
    rows.refuse(~blank & (client < 0), lambda r: "has no client; every row needs one")
    rows.refuse(~blank & ~np.isfinite(start), lambda r: "has no start; every row needs one")
    repeated = _repeated(rows, blank)
    counted = ~(blank | repeated)
    warnings = warn_of_dropped(rows, blank, "rows without client and start")
    warnings += warn_of_dropped(rows, repeated, "duplicate rows")
    work, more = work_of(rows, counted, np.zeros(rows.count, np.int64), None, False, stated)
    if work is None:
        raise LogError(f"{rows.table.path}: no row says how long work took; there must be ends after starts")
    end = _ends(rows)
    last, origin = np.where(np.isnan(end), start, end), float(start[counted].min())
    seconds = float(last[counted].max() - origin)
    slot = _slot(work.seconds, seconds) if slot_seconds is None else slot_seconds
    if seconds / slot > MAX_SLOTS:
        raise LogError(
            f"{rows.table.path}: the times go over {seconds:.3g} s, {seconds / slot:.3g} slots of {slot:g} s; at most "
            f"{MAX_SLOTS:,} can be read: are they seconds? Or take longer slots"
        )
    first = np.where(counted, (start - origin) // slot, 0).astype(np.int64)
    after = np.where(counted, (last - origin) // slot, 0).astype(np.int64) + 1
    arrived = counted & np.isfinite(end)
    if "arrived" in rows.numbers:
        arrived &= rows.numbers["arrived"] != 0
    num_slots = int(after[counted].max())
    clock_start, dated = on_the_clock(origin)
    return Log(
        rows.names["client"],
        num_slots,
        Runs.merge(client[counted], first[counted], after[counted]),
        slot_seconds=slot,
        clock_start=clock_start,
        dated=dated,
        begins=origin + slot * np.arange(num_slots),
        sizes=mean_of(rows, "size", counted),
        losses=mean_of(rows, "loss", counted),
        steps=mean_of(rows, "steps", counted),
        arrived=mean_of(rows, "arrived", counted),
        uploads=count_of(rows, "arrived", counted) if "arrived" in rows.numbers else None,
        warnings=(*warnings, *more),
        averaged=Runs.merge(client[arrived], after[arrived] - 1, after[arrived]),
        shows=Shows(PARTICIPATION, "it says who was at work and nobody else", surely=True),
        work=work,
    )


def _ends(rows: Rows) -> np.ndarray:
    nothing = np.full(rows.count, np.nan)
    end = rows.numbers.get("end", nothing)
    return np.where(np.isnan(end), rows.numbers["start"] + rows.numbers.get("duration", nothing), end)


def _repeated(rows: Rows, blank: np.ndarray) -> np.ndarray:
    """Which rows say the same of the same client as an earlier one."""
    client, start, end = rows.codes["client"], rows.numbers["start"], _ends(rows)
    same = np.where(np.isnan(end), -1.0, end)
    order = np.lexsort((np.arange(rows.count), same, start, client))
    alike = np.all([np.diff(each[order]) == 0 for each in (client, start, same)], axis=0)
    repeated = np.zeros(rows.count, bool)
    repeated[order[1:][alike]] = True
    return repeated & ~blank


def _slot(lengths: np.ndarray, seconds: float) -> float:
    """The largest usual length that is not above the median piece of work, but not more slots than can be looked at."""
    typical = float(np.median(lengths))
    usual = max((length for length in SLOTS if length <= typical), default=SLOTS[0])
    return float(max(usual, seconds / MOST_SLOTS))
