"""How a run stands, as its folder tells: nothing is imported that the experiment names, and no device is touched."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from turnout.errors import FolderError
from turnout.files.whole import is_locked
from turnout.workbench.experiment.kept import kept_histories
from turnout.workbench.experiment.progress import PROGRESS
from turnout.workbench.experiment.run import Outcome
from turnout.workbench.experiment.store import UNFINISHED
from turnout.workbench.experiment.unfinished import LOCK, START

QUIET = 30.0  # seconds without news after which it is checked whether a process is still at work

State = Literal["running", "stopped", "finished"]


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
