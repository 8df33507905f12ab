"""Finished panels of a claim, and finished points of a panel, kept until the claim's folder is complete.

An interrupted run continues after them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnout.errors import FolderError
from turnout.files.manifest import EditedError, read_contents
from turnout.files.whole import FileLock, whole_or_absent
from turnout.workbench.experiment.config import Experiment
from turnout.workbench.experiment.inputs import Inputs, changed_since
from turnout.workbench.experiment.kept import KeptPoints, identity_of
from turnout.workbench.reproduction.measured import CURVES, Curve, parse_curves, write_curves

Row = dict[str, Any]
KEPT = "panel.json"
WHOLE, POINTS = "panel", "points"  # folders inside that of a panel

ANEW = "run all of it anew (--again)"

log = logging.getLogger("turnout")


@dataclass(frozen=True)
class Panel:
    """The curves of one panel, and how they were made."""

    curves: tuple[Curve, ...]
    experiment: str | None = None  # TOML, with the values that were chosen
    grid: tuple[Row, ...] = ()  # of the search, one row per point and seed
    chosen: dict[str, dict[str, Any]] | None = None  # by label, then key
    at_edge: dict[str, dict[str, Any]] | None = None
    seconds: float = 0.0
    inputs: Inputs | None = None  # files that it has read


class KeptPanels:
    """Finished panels of unfinished claims, in a hidden folder beside those of the claims.

    A panel is identified by everything that determines its runs, so every claim with the same panel finds it. An
    unfinished panel has its finished points. Nothing is kept if a claim writes no folder.
    """

    def __init__(self, out: Path | None) -> None:
        """Panels for the claim whose folder will be `out`."""
        self.folder = None if out is None else out.parent / ".panels"

    def find(self, asked: str) -> Panel | None:
        """The kept panel with the same runs; one that is damaged is not taken, and runs again."""
        folder = self._folder(asked)
        if folder is None:
            return None
        try:
            contents = read_contents(folder / WHOLE, (KEPT, CURVES))
            if KEPT not in contents:
                return None
            fields = json.loads(contents[KEPT])
        except EditedError as error:
            log.warning("%s: this panel is run again", error)
            return None
        if (change := changed_since(fields.get("inputs") or {})) is not None:
            raise FolderError(f"{change} since this was kept in {folder}: put the old file back, or {ANEW}")
        return Panel(tuple(parse_curves(contents[CURVES], CURVES)), **(fields | {"grid": tuple(fields["grid"])}))

    def keep(self, asked: str, panel: Panel) -> Panel:
        """Keep a finished panel instead of its points; the panel with the files that these have read."""
        folder = self._folder(asked)
        if folder is None:
            return panel
        read = [KeptPoints(place, "").inputs or {} for place in sorted((folder / POINTS).glob("*"))]
        panel = replace(panel, inputs={name: digest for inputs in read for name, digest in inputs.items()})
        shutil.rmtree(folder / WHOLE, ignore_errors=True)
        with whole_or_absent(folder / WHOLE) as work:
            write_curves(panel.curves, work / CURVES)
            fields = {name: value for name, value in vars(panel).items() if name != "curves"}
            (work / KEPT).write_text(json.dumps(fields), encoding="utf-8")
        shutil.rmtree(folder / POINTS, ignore_errors=True)
        return panel

    def points(self, asked: str, experiment: Experiment) -> KeptPoints | None:
        """Where the finished points of a panel are kept, of its search or of its runs."""
        if (folder := self._folder(asked)) is None:
            return None
        identity = identity_of(experiment)
        return KeptPoints(folder / POINTS / _name(identity), identity, instead=ANEW)

    @contextmanager
    def at_work(self, asked: str) -> Iterator[None]:
        """Run a panel in this process alone; a FolderError if another one does."""
        if (folder := self._folder(asked)) is None:
            yield
            return
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            yield

    def forget(self, asked: Iterable[str]) -> None:
        """Remove the panels of a finished claim."""
        for panel in asked:
            if (folder := self._folder(panel)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
        if self.folder is not None and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _folder(self, asked: str) -> Path | None:
        return None if self.folder is None else self.folder / _name(asked)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
