"""Logs with one row per participation: round, client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turnout.availability.recorded.time_slots import MAX_SLOTS
from turnout.workbench.diagnosis.reading.columns import FLAGS
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.log import AVAILABILITY, PARTICIPATION, Log, Runs, Shows
from turnout.workbench.diagnosis.reading.round_times import RoundTimes, clock_of
from turnout.workbench.diagnosis.reading.row_codes import Rows, warn_of_dropped
from turnout.workbench.diagnosis.reading.work_rows import busy, by_starts, check_times, work_of

MUST_BE_WHOLE = "must be a whole number from 0 on"
MIN_FILLED_SHARE = 0.01  # of the rounds with a participant; below it a remark is made


def from_rounds(rows: Rows, num_rounds: int | None, slot_seconds: float | None, stated_as_work: bool = False) -> Log:
    """Every row is a participation; missing numbers between the first and the last round are empty rounds.

    With a column `asked`, every row is a client that was there, and only those that were asked took part. With times
    of work, a round that begins while a client is still at work for an earlier one was not watched for this client.
    """
    client, number = rows.codes["client"], rows.numbers["round"]
    blank = (client < 0) & np.isnan(number)
    if "round" in rows.not_numbers:
        blank[rows.not_numbers["round"][0]] = False
    slot, first = slots_of_rounds(rows, ~blank)
    warnings = warn_of_dropped(rows, blank, "rows without round and client")
    rows.refuse((client < 0) & ~blank, lambda r: "has no client; every row needs one")
    warnings += restarts(rows, slot)
    num_slots = count_slots(rows, slot, first, num_rounds)
    check_times(rows)
    rows, more = by_starts(rows, slot)
    warnings += more
    clock, more = clock_of(rows, slot, num_slots, slot_seconds)
    kept = np.flatnonzero(~blank) if blank.any() else slice(None)
    present, twice = runs_of_points(client[kept], slot[kept], num_slots)
    repeated = np.zeros(rows.count, bool)
    repeated[np.flatnonzero(~blank)[twice]] = True
    counted = ~(blank | repeated)
    warnings += [*more, *warn_of_dropped(rows, repeated, "duplicate rows")]
    log = log_of_rounds(rows, num_slots, present, clock, counted, warnings)
    asked = mean_of(rows, "asked", counted)
    took_part = counted if asked is None else counted & (rows.numbers["asked"] != 0)
    arrived = mean_of(rows, "arrived", took_part)
    uploads = None if arrived is None else count_of(rows, "arrived", took_part)
    work, more = work_of(rows, took_part & ~blank, slot, clock.slot_seconds, True, stated_as_work)
    log = replace(log, arrived=arrived, uploads=uploads, first_round=first, work=work)
    log = replace(log, warnings=(*log.warnings, *more), watched=_watched(log, rows, slot))
    if asked is None:
        return replace(log, shows=Shows(PARTICIPATION, "it says who took part and nobody else"))
    came = took_part if arrived is None else took_part & (rows.numbers["arrived"] != 0)
    averaged = None if (came == counted).all() else runs_of_points(client[came], slot[came], num_slots)[0]
    return replace(log, averaged=averaged, shows=Shows(AVAILABILITY, "it tells who was asked", surely=True))


def _watched(log: Log, rows: Rows, slot: np.ndarray) -> Runs | None:
    """All rounds but those that began while the client was at work for an earlier one; None: all."""
    if log.work is None or log.begins is None or not {"start", "end"} <= rows.numbers.keys():
        return None
    unknown = busy(rows.numbers["start"], rows.numbers["end"], rows, slot, log.begins)
    if not len(unknown.client):
        return None
    return Runs.union([unknown.complement(log.num_clients, log.num_slots), log.present])


def log_of_rounds(
    rows: Rows, num_slots: int, present: Runs, clock: RoundTimes, counted: np.ndarray, warnings: list[str]
) -> Log:
    """The log with the per-client values of its counted rows, except arrivals."""
    return Log(
        rows.names["client"],
        num_slots,
        present,
        slot_seconds=clock.slot_seconds,
        clock_start=clock.start,
        dated=clock.dated,
        begins=clock.begins,
        sizes=mean_of(rows, "size", counted),
        losses=mean_of(rows, "loss", counted),
        steps=mean_of(rows, "steps", counted),
        warnings=tuple(warnings),
    )


def slots_of_rounds(rows: Rows, used: np.ndarray) -> tuple[np.ndarray, int]:
    """The slot of each row, -1 for an unused row, and the number of the first round."""
    number = rows.numbers["round"]
    with np.errstate(invalid="ignore"):
        whole = number.astype(np.int64)
    wrong = whole != number
    wrong |= whole < 0
    wrong &= used
    rows.refuse(wrong, lambda r: f"has round = {rows.show('round', r)}; {MUST_BE_WHOLE}")
    every = bool(used.all())
    taken = whole if every else whole[used]
    if not len(taken):
        raise LogError(f"{rows.table.path}: no row says who took part; every row needs a round and a client")
    first, last = int(taken.min()), int(taken.max())
    if last - first >= MAX_SLOTS:
        middle = np.median(taken)
        far = used & (whole == (last if last - middle > middle - first else first))
        rows.refuse(
            far,
            lambda r: (
                f"has round = {number[r]:.15g}, so that the log would span {last - first + 1:.3g} rounds; "
                f"at most {MAX_SLOTS:,} can be read: correct the row, or number the rounds one by one"
            ),
        )
    whole -= first
    return whole if every else np.where(used, whole, -1), first


def count_slots(rows: Rows, slot: np.ndarray, first: int, num_rounds: int | None) -> int:
    """Number of rounds, as given or up to the last one in the log."""
    logged = int(slot.max()) + 1
    if num_rounds is None:
        return logged
    if num_rounds < logged:
        raise LogError(
            f"{rows.table.path}: {num_rounds} rounds are given, but the log goes from round {first} to "
            f"{first + logged - 1}; give {logged} or more"
        )
    return num_rounds


def runs_of_points(client: np.ndarray, slot: np.ndarray, num_slots: int) -> tuple[Runs, np.ndarray]:
    """Runs of the slots in which each client has a row, and which rows repeat an earlier one."""
    wide = num_slots + 1  # so that a client's last slot does not touch the next client's first one
    key = client.astype(np.int64)
    key *= wide
    key += slot
    order = np.sort(key)
    apart = np.diff(order)
    repeats = np.zeros(0, np.int64)
    if not apart.all():
        repeats = np.argsort(key, kind="stable")[1:][apart == 0]
        order = order[np.r_[True, apart > 0]]
        apart = np.diff(order)
    edge = np.r_[-1, np.flatnonzero(apart != 1), len(order) - 1]
    first, last = order[edge[:-1] + 1], order[edge[1:]]
    clients = np.arange(int(order[-1] // wide) + 2)
    who = np.repeat(clients[:-1].astype(np.int32), np.diff(np.searchsorted(first, clients * wide)))
    begin = who.astype(np.int64) * wide
    return Runs(who, (first - begin).astype(np.int32), (last - begin + 1).astype(np.int32)), repeats


def restarts(rows: Rows, slot: np.ndarray) -> list[str]:
    """A warning if the round falls from one row to the next, unless the rows are grouped by client."""
    falls = np.r_[False, (slot[1:] < slot[:-1]) & (slot[1:] >= 0)]
    if not falls.any():
        return []
    client = rows.codes["client"]
    if np.sum(client[1:] != client[:-1]) < len(rows.names["client"]):
        return []
    row, number = int(np.argmax(falls)), rows.numbers["round"]
    more = int(falls.sum()) - 1
    return [
        f"the round falls from {number[row - 1]:.0f} to {number[row]:.0f} at {rows.table.place(row)}"
        + (f", and {more:,} times more" if more else "")
        + "; rows count by their round, in any order: if a server was restarted, continue its numbering"
    ]


def count_of(rows: Rows, column: str, counted: np.ndarray) -> np.ndarray:
    """Number of counted rows of each client that have a value in the column."""
    usable = counted & np.isfinite(rows.numbers[column]) & (rows.codes["client"] >= 0)
    return np.bincount(rows.codes["client"][usable], minlength=len(rows.names["client"]))


def mean_of(rows: Rows, column: str, counted: np.ndarray) -> np.ndarray | None:
    """Mean of a column over the rows of each client, NaN if it has none; None without the column."""
    if column not in rows.numbers:
        return None
    flag = column in FLAGS
    rows.refuse_text(column, "must be 0 or 1" if flag else "must be a number")
    values = rows.numbers[column]
    if flag:
        wrong = np.isfinite(values) & (values != 0) & (values != 1)
        rows.refuse(wrong, lambda r: f"has {column} = {values[r]:.15g}; must be 0 or 1")
    if column in ("size", "steps"):
        rows.refuse(values < 0, lambda r: f"has {column} = {values[r]:.15g}; must not be negative")
    usable = counted & np.isfinite(values) & (rows.codes["client"] >= 0)
    client, count = rows.codes["client"][usable], len(rows.names["client"])
    if not len(client):
        return None
    times = np.bincount(client, minlength=count)
    total = np.bincount(client, values[usable], minlength=count)
    return np.divide(total, times, out=np.full(count, np.nan), where=times > 0)
