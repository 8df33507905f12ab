"""Numbers and times as people read them: shares, lengths of time, and slots of a log with their dates."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from turnout.workbench.diagnosis.reading.log import Log

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def percent(share: float) -> str:
    """A share for reading: two digits where it is small."""
    value = 100 * share
    return f"{value:z.0f} %" if value >= 9.95 or value < 0.005 else f"{value:.2g} %"


def duration(seconds: float, form: str = ".3g") -> str:
    """A length of time in the unit that suits it."""
    for unit, name in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:{form}} {name}"
    return f"{seconds:{form}} seconds"


def in_zone(log: Log) -> str:
    """The time zone in brackets, after an hour; empty if the log does not say."""
    return f" ({log.zone})" if log.zone else ""


def moment(log: Log, slot: int) -> str:
    """The number of a slot as the log counts, and when it began."""
    number = f"{slot + log.first_round:,}"
    if log.slot_seconds is None:
        return number
    if _has_dates(log):
        return f"{number} ({_date(log, slot):%Y-%m-%d %H:%M}{_zone(log)})"
    return f"{number} ({duration(_seconds(log, slot))} after the beginning)"


def stretch(log: Log, first: int, end: int) -> str:
    """The numbers of the slots from `first` to before `end`, and from when to when they lasted."""
    numbers = f"{first + log.first_round:,}–{end - 1 + log.first_round:,}"
    if log.slot_seconds is None:
        return numbers
    if not _has_dates(log):
        begin, stop = (duration(_seconds(log, slot)) for slot in (first, end))
        return f"{numbers} ({begin} to {stop} after the beginning)"
    begin, stop = _date(log, first), _date(log, end)
    until = f"{stop:%H:%M}" if begin.date() == stop.date() else f"{stop:%Y-%m-%d %H:%M}"
    return f"{numbers} ({begin:%Y-%m-%d %H:%M} to {until}{_zone(log)})"


def _has_dates(log: Log) -> bool:
    return log.dated and log.begins is not None


def _zone(log: Log) -> str:
    return f" {log.zone}" if log.zone else ""


def _seconds(log: Log, slot: int) -> float:
    """From the beginning of the log to that of a slot, or to the end of the last."""
    length = log.slot_seconds or 0.0
    if log.begins is None:
        return slot * length
    last = min(slot, log.num_slots - 1)
    return float(log.begins[last] - log.begins[0]) + (slot - last) * length


def _date(log: Log, slot: int) -> datetime:
    assert log.begins is not None
    seconds = float(log.begins[0]) + _seconds(log, slot)
    return datetime.fromtimestamp(seconds, UTC if log.zone in ("", "UTC") else ZoneInfo(log.zone))
