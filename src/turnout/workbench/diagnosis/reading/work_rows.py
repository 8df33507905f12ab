"""How long pieces of work took: rows with a start and an end, or a duration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turnout.workbench.diagnosis.reading.columns import LENGTHS
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.log import LoggedWork, Runs
from turnout.workbench.diagnosis.reading.round_times import MUST_BE_TIME, refuse_milliseconds
from turnout.workbench.diagnosis.reading.row_codes import Rows, warn_of_dropped

SAME = 0.1  # relative difference between a duration and end - start that is rounding
THOUSAND = 300.0  # ratio from which on a number is in milliseconds
MOST_ROUNDS = 100.0  # that work can take, of the median length of a round


def check_times(rows: Rows) -> None:
    """Refuse times of work that cannot be."""
    for column in ("start", "end"):
        if column in rows.numbers:
            rows.refuse_text(column, MUST_BE_TIME)
            refuse_milliseconds(rows, column)
    if "duration" in rows.numbers:
        rows.refuse_text("duration", "must be a number of seconds")
        long = rows.numbers["duration"]
        rows.refuse(long < 0, lambda r: f"has duration = {long[r]:.15g}; must not be negative")
    if {"start", "end"} <= rows.numbers.keys():
        start, end = rows.numbers["start"], rows.numbers["end"]
        hint = " (some times state an offset from UTC and some do not)" if rows.mixed_clocks else ""
        rows.refuse(
            end < start,
            lambda r: f"ended at {end[r]:.15g} s, before it started at {start[r]:.15g} s{hint}; must be later",
        )


def by_starts(rows: Rows, slot: np.ndarray) -> tuple[Rows, list[str]]:
    """The rows with their starts as times of rounds, if they have no other times and the starts are in order."""
    if "time" in rows.numbers or "start" not in rows.numbers:
        return rows, []
    start = rows.numbers["start"]
    known = (slot >= 0) & np.isfinite(start)
    first = np.full(int(slot.max()) + 1, np.inf)
    np.minimum.at(first, slot[known], start[known])
    if (np.diff(first[np.isfinite(first)]) < 0).any():
        return rows, ["rounds do not begin in the order of their numbers; when they began was left aside"]
    return replace(rows, numbers=rows.numbers | {"time": start}), []


def work_of(
    rows: Rows, counted: np.ndarray, slot: np.ndarray, round_seconds: float | None, in_rounds: bool, stated: bool
) -> tuple[LoggedWork | None, list[str]]:
    """How long the counted rows worked, and warnings; None if the log does not say.

    Work without an end took at least until its round closed, that is until the last answer of the round, or until the
    log ended. Without rounds, of work that was given up nothing is known.
    """
    if not ({"start", "end"} <= rows.numbers.keys() or "duration" in rows.numbers):
        return None, []
    start, end, seconds, warnings = _lengths(rows, counted, round_seconds)
    momentary = counted & (seconds <= 0)
    unstarted = counted & np.isnan(seconds) & np.isfinite(end)
    warnings += warn_of_dropped(rows, momentary, "times of work that end when they start")
    warnings += warn_of_dropped(rows, unstarted, "times of work with an end and no start")
    ended = counted & (seconds > 0)
    if not ended.any():
        return None, [*warnings, "no row says how long work took; the times of work were left aside"]
    open_rows = counted & np.isnan(seconds) & np.isfinite(start)
    given_up = open_rows & _begun_later(rows.codes["client"], start, counted)
    surely = _surely(start, end, slot, given_up, in_rounds)
    seconds = np.where(ended, seconds, surely)
    used = ended | (open_rows & (seconds > 0))
    steps = rows.numbers.get("steps")
    because = "you say so" if stated else _because(rows, in_rounds)
    work = LoggedWork(
        client=rows.codes["client"][used],
        slot=slot[used],
        seconds=seconds[used],
        ended=ended[used],
        steps=None if steps is None else steps[used],
        running=int((open_rows & ~given_up).sum()),
        given_up=int(given_up.sum()),
        because=because,
        surely=stated,
        in_rounds=in_rounds,
    )
    return work, warnings


def _because(rows: Rows, in_rounds: bool) -> str:
    """Why times are taken for those of work."""
    named = " and ".join(rows.columns[name].strip() for name in LENGTHS if name in rows.numbers)
    return f"it has {named}, " + ("and every row its round" if in_rounds else "and names or columns that only work has")


def _lengths(
    rows: Rows, counted: np.ndarray, round_seconds: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Start, end and seconds of each row, NaN where unknown, and warnings."""
    nothing = np.full(rows.count, np.nan)
    start, end = rows.numbers.get("start", nothing), rows.numbers.get("end", nothing)
    seconds, stated = end - start, rows.numbers.get("duration", nothing)
    both = counted & (seconds > 0) & (stated > 0)
    warnings = []
    if both.any():
        ratio = float(np.median(stated[both] / seconds[both]))
        if ratio > THOUSAND:
            raise LogError(
                f"{rows.table.path}: durations are {ratio:.3g} times as long as from start to end; must be seconds "
                "(not milliseconds), or leave the column out"
            )
        differ = both & (np.abs(stated / np.where(both, seconds, 1.0) - 1) > SAME)
        if differ.any():
            warnings.append(
                f"{differ.sum():,} rows have a duration that is not their end less their start, the first at "
                f"{rows.table.place(int(np.argmax(differ)))}; start and end were used"
            )
    alone = counted & np.isnan(seconds) & (stated > 0)
    if alone.any() and round_seconds is not None:
        typical = float(np.median(stated[alone]))
        if typical > MOST_ROUNDS * round_seconds:
            raise LogError(
                f"{rows.table.path}: half of the work takes {typical:.4g} s or more, but a round {round_seconds:.4g} s;"
                " durations must be seconds (not milliseconds)"
            )
    return start, end, np.where(np.isnan(seconds), stated, seconds), warnings


def _begun_later(client: np.ndarray, start: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Whether the client began something else after this start."""
    latest = np.full(int(client.max()) + 1, -np.inf)
    known = counted & np.isfinite(start)
    np.maximum.at(latest, client[known], start[known])
    return known & (start < latest[client])


def _surely(start: np.ndarray, end: np.ndarray, slot: np.ndarray, given_up: np.ndarray, in_rounds: bool) -> np.ndarray:
    """What work without an end surely took: until its round closed if it was given up, else until the log ended."""
    times = np.concatenate([start[np.isfinite(start)], end[np.isfinite(end)]])
    last = float(times.max()) if times.size else np.nan
    closed = np.full(int(slot.max()) + 2, -np.inf)
    answered = (slot >= 0) & np.isfinite(end)
    np.maximum.at(closed, slot[answered], end[answered])
    begun = np.full(len(closed), np.inf)
    np.minimum.at(begun, slot[np.isfinite(start) & (slot >= 0)], start[np.isfinite(start) & (slot >= 0)])
    closed = np.minimum(closed, np.append(begun[1:], np.inf))  # late answers that were kept close no round
    until = np.where(given_up, closed[slot] if in_rounds else np.nan, last)
    return until - start


def busy(start: np.ndarray, end: np.ndarray, rows: Rows, slot: np.ndarray, begins: np.ndarray) -> Runs:
    """The rounds that began while a client was still at work for an earlier one: it could not be asked."""
    known = (slot >= 0) & (end > start)
    after = np.searchsorted(begins, end[known], side="left")
    first = slot[known] + 1
    return Runs.merge(rows.codes["client"][known], first, np.maximum(after, first))
