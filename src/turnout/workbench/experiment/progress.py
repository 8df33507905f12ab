"""How far a run is, in a small file of its folder, so that others can look on while it goes on."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from turnout.errors import FolderError
from turnout.files.whole import whole_file
from turnout.simulator.simulate import Watcher

PROGRESS = "progress.json"
EVERY = 0.5  # seconds between two notes at least


class ProgressNotes:
    """Progress that is passed on and noted; without a file to write to, the run goes on."""

    def __init__(self, path: Path, progress: Callable[[float], None] | None, watch: Watcher | None) -> None:
        self._path, self._progress, self._watch = path, progress, watch
        self._latest: dict[str, float | None] = {}
        self._first: tuple[float, float] | None = None  # when progress was first reported, and the share then
        self._last = -math.inf

    def watch(self, latest: dict[str, float]) -> None:
        """The newest value of each metric."""
        self._latest = {name: value if math.isfinite(value) else None for name, value in latest.items()}
        if self._watch is not None:
            self._watch(latest)

    def progress(self, share: float) -> None:
        """The share that is done."""
        now = time.monotonic()
        self._first = self._first or (now, share)
        if now - self._last >= EVERY:
            self._last = now
            self._note(share, self._left(now, share))
        if self._progress is not None:
            self._progress(share)

    def _left(self, now: float, share: float) -> float | None:
        """Seconds that are left if it goes on as since the first report; None before the second one."""
        begun, first = self._first or (now, share)
        return (now - begun) * (1 - share) / (share - first) if share > first else None

    def _note(self, share: float, left: float | None) -> None:
        with suppress(OSError, FolderError), whole_file(self._path) as draft:
            draft.write_text(json.dumps({"share": share, "left": left, "latest": self._latest}), encoding="utf-8")
