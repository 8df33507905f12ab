"""Recordings of real phones as their authors have published them, converted to intervals for `trace`.

FLASH (Yang et al. 2021): a thousand devices with a keyboard app, early in 2020, available when locked, charging and on
WiFi; 710 of them have usable logs. STUNner (Szabó et al. 2019): 776 Android phones in 2014, available when online and
on a charger or, for the two variants, with a battery of at least 100 or 80 %.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.files.downloads import Remote, given, local_copy
from turnout.files.integrity import reading, verify

Interval = tuple[str, int, int, int]  # client, start and end in seconds, state: the columns of a trace
STUNNER_START = 1_396_656_000_000  # 5 April 2014, in milliseconds since 1970


@dataclass(frozen=True)
class Recording:
    """A published file, its reader, and the checksum of the rows read if that of the file is unknown."""

    remote: Remote
    intervals: Callable[[str], Iterator[Interval]]
    rows: str | None = None


def flash(text: str) -> Iterator[Interval]:
    """The intervals of the devices of FLASH, sorted by device number, from the times when each was ready."""
    devices = json.loads(text)
    for name in sorted(devices, key=int):
        device = devices[name]
        if device["isSuccess"]:
            yield from _join(name, _ready_or_not(device))


def _ready_or_not(device: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    now, end = int(device["trace_start"]), int(device["trace_end"])
    for begin, until in sorted(device["ready_time"]):
        begin, until = max(int(begin), now), min(int(until), end)
        if until > begin:
            yield now, begin, 0
            yield begin, until, 1
            now = until
    yield now, end, 0


def stunner(text: str) -> Iterator[Interval]:
    """The intervals of the phones of STUNner, in order of appearance.

    A line holds a user, the first state, a time, a time zone, and the lengths of alternating states, in milliseconds.
    """
    by_user: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        user, *rest = line.split()
        by_user.setdefault(user, []).append(rest)
    for number, windows in enumerate(by_user.values()):
        yield from _join(str(number), (piece for window in windows for piece in _in_turn(window)))


def _in_turn(window: list[str]) -> Iterator[tuple[int, int, int]]:
    state, time, _, *lengths = map(int, window)
    now = time - STUNNER_START
    for length in lengths:
        yield _seconds(now), _seconds(now + length), state
        now, state = now + length, 1 - state


def _seconds(milliseconds: int) -> int:
    return (milliseconds + 500) // 1000


def _join(client: str, pieces: Iterable[tuple[int, int, int]]) -> Iterator[Interval]:
    """Drop empty pieces and merge neighbours of the same state."""
    pending: tuple[int, int, int] | None = None
    for begin, end, state in pieces:
        if end <= begin:
            continue
        if pending is not None and (pending[1], pending[2]) == (begin, state):
            pending = pending[0], end, state
            continue
        if pending is not None:
            yield client, *pending
        pending = begin, end, state
    if pending is not None:
        yield client, *pending


def _on_github(path: str, repository: str, commit: str, file: str, checksum: str = "") -> Remote:
    mirrors = (
        f"https://raw.githubusercontent.com/{repository}/{commit}/{file}",
        f"https://cdn.jsdelivr.net/gh/{repository}@{commit}/{file}",
    )
    return Remote(path, checksum, mirrors)


def _stunner(battery: int, content: str) -> Recording:
    file = f"peersim_session_{battery}.txt"
    place = "ormandi/Gossip-Learning-Framework", "9f9d37f9bbcaee28e9c35ba0e1a975be8451251c", f"res/trace/{file}"
    return Recording(_on_github(f"traces/{file}", *place, f"git:{content}"), stunner)


RECORDINGS = {
    "traces/flash1000_intervals.csv.gz": Recording(
        _on_github(
            "traces/cached_timers.json",
            "Carkham/FLHetBench",
            "633c07138b0cfb1dc2e65c5c8462993a5a7bfb14",
            "data/cached_timers.json",
        ),
        flash,
        rows="sha256:84441c3efea86924465063e116dbd7b6d73aba2e4e34cfba50178d13b9aac8c4",
    ),
    "traces/stunner_100_intervals.csv.gz": _stunner(100, "e761c79de87dcf755c3f58a123402fd7a9b0405d"),
    "traces/stunner_80_intervals.csv.gz": _stunner(80, "a81af550d30637324f802769e8219baa2fc8bd17"),
}


def is_published(path: str) -> bool:
    """Whether there is no file at this path, but a published recording to download."""
    return path in RECORDINGS and not Path(path).is_file() and given(path) is None


def read_published(path: str) -> list[Interval]:
    """The intervals of a published recording, downloaded the first time."""
    recording = RECORDINGS[path]
    file = local_copy(recording.remote, __name__)
    with reading(file):
        intervals = list(recording.intervals(file.read_text(encoding="utf-8")))
        if recording.rows is not None:
            verify(as_lines(intervals).encode(), recording.rows)
    return intervals


def as_lines(intervals: Iterable[Interval]) -> str:
    """The rows of a trace file, below its header."""
    return "".join(f"{client},{begin},{end},{state}\n" for client, begin, end, state in intervals)


def load() -> None:
    """Download all recordings."""
    for path in RECORDINGS:
        read_published(path)
