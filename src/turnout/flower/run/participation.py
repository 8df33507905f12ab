"""A log of who was available, who was asked and whose update arrived, which `turnout diagnose` reads."""

from __future__ import annotations

import csv
import datetime
import io
import os
from pathlib import Path

from turnout.files.whole import durable_file
from turnout.flower.server.compiled_round import RoundRecord

COLUMNS = ("timestamp", "round", "client", "event")


class ParticipationLog:
    """A CSV file of events, which grows by each closed round."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._members: set[str] = set()  # clients that the file names

    def cut(self, t: int) -> None:
        """Drop round t and all later ones, which are about to run, perhaps again; if t is 0, begin a new file."""
        kept = []
        if t > 0 and self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                kept = [row for row in csv.reader(file) if _is_before(row, t)]
        self._members = {row[2] for row in kept if row[3] == "member"}
        with durable_file(self.path) as file:
            file.write(_lines([COLUMNS, *kept]).encode())

    def add(self, record: RoundRecord) -> None:
        """Append all events of a round with one write."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        arrived = set(record.arrived)
        members = [name for name in record.members if name not in self._members]
        self._members.update(members)
        events = [("", "round"), *((name, "member") for name in members)]
        events += [(name, "available") for name in record.available]
        events += [(name, "listed") for name in record.unknown]
        events += [(name, "asked") for name in record.uploads]
        events += [(name, "arrived" if name in arrived else "failed") for name in record.uploads]
        events += [(name, "late") for name in record.late]
        with self.path.open("a", newline="", encoding="utf-8") as file:
            file.write(_lines([(now, str(record.t), name, event) for name, event in events]))
            file.flush()
            os.fsync(file.fileno())


def _is_before(row: list[str], t: int) -> bool:
    """Whether a complete row is of an earlier round; the header and a torn last row are not."""
    return len(row) == len(COLUMNS) and row[1].isdigit() and int(row[1]) < t


def _lines(rows: list[tuple[str, ...] | list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
