"""How a run stands: a small file in its folder, written while it goes on, from which others can see how far it is.

Whoever looks on imports nothing that the experiment names, and touches no device.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from turnout.errors import FolderError
from turnout.files.whole import is_locked, whole_file
from turnout.simulator.simulate import Watcher
from turnout.workbench.experiment.kept import kept_histories
from turnout.workbench.experiment.run import Outcome
from turnout.workbench.experiment.store import UNFINISHED

START, LOCK, PROGRESS = "start.json", "lock", "progress.json"  # files of an unfinished run
EVERY = 0.5  # seconds between two notes at least
QUIET = 30.0  # seconds without news after which it is checked whether a process is still at work

State = Literal["running", "stopped", "finished"]


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
            begun, first = self._first
            # Seconds that are left if it goes on as since the first report; not known before the second one.
            left = (now - begun) * (1 - share) / (share - first) if share > first else None
            with suppress(OSError, FolderError), whole_file(self._path) as draft:
                draft.write_text(json.dumps({"share": share, "left": left, "latest": self._latest}), encoding="utf-8")
        if self._progress is not None:
            self._progress(share)


@dataclass(frozen=True)
class Standing:
    """A run that goes on, was stopped or is finished."""

    state: State
    title: str = ""
    share: float = 0.0  # that is done
    left: float | None = None  # seconds, None if it cannot be told yet
    latest: dict[str, float | None] = field(default_factory=dict)  # the newest value of each metric
    outcomes: tuple[Outcome, ...] = ()  # of strategies that are finished

    @classmethod
    def of(cls, folder: Path) -> Standing:
        """How the run of a folder stands; a FolderError if it has none."""
        unfinished = folder / UNFINISHED
        start = _read(unfinished / START)
        if start is None:
            if not (folder / "run.json").is_file():
                raise FolderError(f"{folder}: not a run folder: it has no run, neither finished nor under way")
            return cls("finished", share=1.0)
        note, experiment = _read(unfinished / PROGRESS) or {}, start.get("experiment")
        outcomes = tuple(Outcome(label, label, {}, history) for label, history in kept_histories(unfinished))
        return cls(
            "stopped" if _is_quiet(unfinished) and not is_locked(unfinished / LOCK) else "running",
            str(experiment.get("title", "")) if isinstance(experiment, dict) else "",
            float(note.get("share", 0.0)),
            note.get("left"),
            note.get("latest", {}),
            outcomes,
        )


def _read(path: Path) -> dict[str, Any] | None:
    """A table of JSON; None if it is not there, or not whole."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _is_quiet(unfinished: Path) -> bool:
    """Whether nothing was written for a while; a lock is tried only then, since trying it may disturb who takes it."""
    times = [file.stat().st_mtime for file in (unfinished / START, unfinished / PROGRESS) if file.exists()]
    return time.time() - max(times, default=0.0) > QUIET
