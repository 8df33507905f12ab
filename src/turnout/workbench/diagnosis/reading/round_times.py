"""When rounds happen: their length and their beginnings, as far as a log says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.availability.recorded.time_slots import DAY
from turnout.workbench.diagnosis.reading.row_codes import Rows

MUST_BE_TIME = "must be seconds or an ISO 8601 timestamp, such as 2026-03-02T14:00:00Z"
MIN_DATE = 1e8  # seconds since 1970 that are a date: March 1973
MONDAY = 3 * DAY  # 1970 began on a Thursday


@dataclass(frozen=True)
class RoundTimes:
    """When rounds happen, as far as the log says."""

    slot_seconds: float | None = None
    start: float = 0.0  # seconds after a midnight, of Monday if dated
    dated: bool = False
    begins: np.ndarray | None = None  # of each round in seconds, if dated since 1970


def clock_of(rows: Rows, slot: np.ndarray, num_slots: int, slot_seconds: float | None) -> tuple[RoundTimes, list[str]]:
    """Length of a round: as given, or the median time between the first rows of consecutive rounds."""
    time = rows.numbers.get("time")
    if time is None:
        return RoundTimes(slot_seconds), []
    rows.refuse_text("time", MUST_BE_TIME)
    refuse_milliseconds(rows, "time")
    timed = (slot >= 0) & np.isfinite(time)
    if not timed.any():
        return RoundTimes(slot_seconds), []
    begins = np.full(int(slot.max()) + 1, np.inf)
    np.minimum.at(begins, slot[timed], time[timed])
    timed_rounds = np.flatnonzero(np.isfinite(begins))
    lengths = np.diff(begins[timed_rounds]) / np.diff(timed_rounds)
    if (lengths < 0).any():
        late = timed_rounds[1:][lengths < 0][0]
        before = timed_rounds[np.searchsorted(timed_rounds, late) - 1]
        shift = int(rows.numbers["round"][timed][0] - slot[timed][0])
        hint = " (some times state an offset from UTC and some do not)" if rows.mixed_clocks else ""
        rows.refuse(
            timed & (slot == late) & (time == begins[late]),
            lambda r: (
                f"goes back in time: round {late + shift} begins at {time[r]:.15g} s, "
                f"round {before + shift} at {begins[before]:.15g} s{hint}; correct the times, or leave the column out"
            ),
        )
    length = slot_seconds
    if length is None:
        length = float(np.median(lengths)) if len(lengths) else 0.0
    if length == 0:
        return RoundTimes(), ["the times do not show how long a round takes; they were ignored"]
    start = float(begins[timed_rounds[0]] - timed_rounds[0] * length)
    return RoundTimes(length, *on_the_clock(start), _all_begins(begins, timed_rounds, length, num_slots)), []


def _all_begins(begins: np.ndarray, timed: np.ndarray, length: float, num_slots: int) -> np.ndarray:
    """When each round began: those without a time are spread evenly between those with one, or beyond them."""
    rounds = np.arange(num_slots)
    beyond = np.minimum(rounds - timed[0], 0) + np.maximum(rounds - timed[-1], 0)
    return np.interp(rounds, timed, begins[timed]) + length * beyond


def on_the_clock(seconds: float) -> tuple[float, bool]:
    """Seconds after midnight, or after Monday's if the time is a date, and whether it is one."""
    dated = seconds > MIN_DATE
    return ((seconds + MONDAY) % (7 * DAY), True) if dated else (seconds % DAY, False)


def refuse_milliseconds(rows: Rows, column: str) -> None:
    """Refuse times above 10¹¹, which seconds since 1970 reach in the year 5138."""
    rows.refuse(
        np.abs(rows.numbers[column]) > 1e11,
        lambda r: f"has {column} = {rows.show(column, r)}; must be seconds (not milliseconds) or ISO 8601",
    )
