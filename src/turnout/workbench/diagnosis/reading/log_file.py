"""From a file to a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from os import PathLike, fspath
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from turnout.availability.recorded.time_slots import DAY, MAX_SLOTS
from turnout.declarations import checked
from turnout.workbench.diagnosis.reading.columns import (
    EVENTS,
    INTERVALS,
    OF_WORK,
    OPTIONAL,
    SESSIONS,
    WORK,
    recognise_columns,
    shape_of,
)
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.event_rows import from_events
from turnout.workbench.diagnosis.reading.interval_rows import from_intervals
from turnout.workbench.diagnosis.reading.log import AVAILABILITY, PARTICIPATION, Log, Shows
from turnout.workbench.diagnosis.reading.round_rows import MIN_FILLED_SHARE, from_rounds
from turnout.workbench.diagnosis.reading.row_codes import Rows, read_rows
from turnout.workbench.diagnosis.reading.table import open_table
from turnout.workbench.diagnosis.reading.work_log import from_work

SHOWS = (AVAILABILITY, PARTICIPATION, OF_WORK, SESSIONS)


# Long: half of it says what its options are.
@checked
def read_log(
    path: str | PathLike[str],
    *,
    slot_seconds: float | int | None = None,
    num_rounds: int | None = None,
    clients: str | PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    zone: str | None = None,
    shows: str | None = None,
) -> Log:
    """Read a participation log: CSV, JSON Lines (both also gzipped) or Parquet, in any of four shapes.

    - `round,client`: one row per participation; optional `time`, `size`, `loss`, `arrived`, `asked`, `steps`, and the
      times of work: `started` and `ended`, or `duration` in seconds.
    - `client,start,end[,state]`: stretches of time in seconds or ISO 8601; optional `size`.
    - `client,started,ended`: pieces of work, where a server asks whoever is idle; `duration` may stand for the end.
    - `timestamp,round,client,event`: what the server saw; see `VOCABULARY` in `event_rows`.

    `slot_seconds` is the length of a slot (600 if not given) or, for logs by round, of a round. `num_rounds` is the
    number of rounds, if nobody came to the last ones. `clients` is a file `client,size[,target]` of all clients, also
    those that never came; the log may then name no others. `columns` names columns of the file that are not recognised,
    such as `{"client": "Device ID"}`. `zone`, such as `"Europe/Paris"`, is the time zone in which hours and days are
    told, UTC if not given; times without an offset are UTC if it is given, else of an unnamed clock. `shows` says what
    an absent client did: `"availability"`, it could not have taken part, or `"participation"`, it may not have been
    asked; or what rows with a start and an end are: `"work"`, or `"sessions"` in which a client was there. By the
    columns if not given.
    """
    if shows not in (None, *SHOWS):
        raise LogError(f"shows = {shows!r}: must be {', '.join(SHOWS[:-1])} or {SHOWS[-1]}")
    if slot_seconds is not None and not 0 < slot_seconds < np.inf:
        raise LogError(f"slot_seconds = {slot_seconds}: must be a positive number of seconds")
    if num_rounds is not None and not 1 <= num_rounds <= MAX_SLOTS:
        raise LogError(f"num_rounds = {num_rounds}: must be from 1 to {MAX_SLOTS:,}")
    listed = None if clients is None else _client_list(fspath(clients))
    with open_table(fspath(path)) as table:
        file_names, warnings = recognise_columns(table.header, columns or {})
        shape = shape_of(table.path, table.header, file_names, shows)
        if shape in (INTERVALS, WORK) and num_rounds is not None:
            raise LogError(f"{path}: num_rounds = {num_rounds} is for logs by round; this one has start and end")
        rows = read_rows(table, {name: file_names[name] for name in (*shape, *OPTIONAL[shape]) if name in file_names})
        if listed is not None:
            rows = _number_as_listed(rows, listed[0], fspath(clients or ""))
        length = None if slot_seconds is None else float(slot_seconds)
        log = _from_rows(rows, shape, num_rounds, length, shows == OF_WORK)
    if listed is not None:
        log = replace(log, sizes=log.sizes if listed[1] is None else listed[1], target=listed[2])
    log = log if shows in (OF_WORK, SESSIONS) else as_stated(log, shows)
    log, more = _fill_sizes(_in_utc(log, rows) if zone is None else _in_zone(log, zone, fspath(path)))
    return replace(log, warnings=(*warnings, *log.warnings, *_mixed_clocks(rows), *more, *_remarks(log)))


def as_stated(log: Log, shows: str | None) -> Log:
    """The log, taken for what the user says."""
    if shows not in (None, AVAILABILITY, PARTICIPATION):
        raise LogError(f"shows = {shows!r}: must be {AVAILABILITY} or {PARTICIPATION}")
    return log if shows is None else replace(log, shows=Shows(shows, "you say so", surely=True))


def _from_rows(
    rows: Rows, shape: tuple[str, ...], num_rounds: int | None, slot_seconds: float | None, work: bool
) -> Log:
    if shape is INTERVALS:
        return from_intervals(rows, slot_seconds)
    if shape is WORK:
        return from_work(rows, slot_seconds, work)
    if shape is EVENTS:
        return from_events(rows, num_rounds, slot_seconds)
    return from_rounds(rows, num_rounds, slot_seconds, work)


def _in_utc(log: Log, rows: Rows) -> Log:
    """The log, its clock called UTC if it is: times state an offset, or are seconds since 1970."""
    stated = "UTC" in rows.clocks or "own" not in rows.clocks
    return replace(log, zone="UTC") if log.dated and stated else log


def _in_zone(log: Log, zone: str, path: str) -> Log:
    """The log with the clock of a time zone instead of UTC, by its offset in the middle of the log."""
    try:
        clock = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise LogError(f"zone = {zone!r}: no such time zone; give a name such as Europe/Paris or UTC") from None
    if not log.dated or log.begins is None:
        raise LogError(f"{path}: zone = {zone!r} is for logs with dates; the times of this one are not")
    offset = datetime.fromtimestamp(float(log.begins[log.num_slots // 2]), clock).utcoffset() or timedelta()
    return replace(log, clock_start=(log.clock_start + offset.total_seconds()) % (7 * DAY), zone=zone)


def _mixed_clocks(rows: Rows) -> list[str]:
    if not rows.mixed_clocks:
        return []
    return ["some times state an offset from UTC and some do not; those without were taken for UTC"]


def _client_list(path: str) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Names, sizes and targets of all clients; the targets sum to 1."""
    with open_table(path) as table:
        file_names, _ = recognise_columns(table.header)
        if "client" not in file_names:
            raise LogError(f"{path}: no column client; a list of clients has the columns client,size[,target]")
        rows = read_rows(table, {name: file_names[name] for name in ("client", "size", "target") if name in file_names})
        codes, names = rows.codes["client"], rows.names["client"]
        rows.refuse(codes < 0, lambda r: "has no client; every row needs one")
        rows.refuse(np.r_[False, codes[1:] <= np.maximum.accumulate(codes)[:-1]], lambda r: "is listed twice")
        for column, values in rows.numbers.items():
            rows.refuse(
                ~(np.isfinite(values) & (values >= 0)),
                lambda r, c=column: f"has {c} = {rows.show(c, r)}; must be a number from 0 on",
            )
            if values.sum() <= 0:
                raise LogError(f"{path}: every {column} is 0; at least one must be positive")
    target = rows.numbers.get("target")
    return names, rows.numbers.get("size"), None if target is None else target / target.sum()


def _number_as_listed(rows: Rows, listed: np.ndarray, source: str) -> Rows:
    """The same rows with clients numbered as in the list, which must contain them all."""
    place = {name: index for index, name in enumerate(listed.tolist())}
    number = np.array([place.get(name, -1) for name in rows.names["client"].tolist()] + [-1], np.int32)
    codes = number[rows.codes["client"]]
    rows.refuse((codes < 0) & (rows.codes["client"] >= 0), lambda r: f"is not among the {len(listed):,} of {source}")
    return replace(rows, codes=rows.codes | {"client": codes}, names=rows.names | {"client": listed})


def _fill_sizes(log: Log) -> tuple[Log, list[str]]:
    if log.sizes is None or not np.isnan(log.sizes).any():
        return log, []
    mean, unknown = float(np.nanmean(log.sizes)), np.isnan(log.sizes)
    sizes = np.where(unknown, mean, log.sizes)
    return replace(log, sizes=sizes), [f"{unknown.sum():,} clients report no size; they get the mean, {mean:.4g}"]


def _remarks(log: Log) -> list[str]:
    """Remarks on what the log is too small to show."""
    remarks = []
    if log.num_clients == 1:
        remarks.append("there is a single client: nothing can be said about who counts more")
    if log.num_slots == 1:
        slot = "round" if log.slot_seconds is None else "slot"
        remarks.append(f"there is a single {slot}: nothing can be said about time")
    slots_present = log.present.slots_of(log.num_clients)
    if log.num_slots > 1 and slots_present.max(initial=0) <= 1:
        remarks.append("no client was seen more than once: nothing can be said about correlation")
    covered = _filled_slots(log)
    if log.slot_seconds is None and covered < MIN_FILLED_SHARE * log.num_slots:
        remarks.append(f"only {covered:,} of {log.num_slots:,} rounds have a participant; do round numbers skip some?")
    return remarks


def _filled_slots(log: Log) -> int:
    change = np.bincount(log.present.first, minlength=log.num_slots + 1).astype(np.int64)
    change -= np.bincount(log.present.end, minlength=log.num_slots + 1)
    return int(np.sum(np.cumsum(change)[:-1] > 0))
