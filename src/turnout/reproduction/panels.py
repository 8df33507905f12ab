"""Finished panels of a claim, and finished strategies of a panel, kept until the claim's folder is complete.

An interrupted run continues after them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.files.whole import whole_file
from turnout.reproduction.measured import CURVES, Curve, read_curves, write_curves

Row = dict[str, Any]
KEPT = "panel.json"


@dataclass(frozen=True)
class Panel:
    """The curves of one panel, and how they were made."""

    curves: tuple[Curve, ...]
    experiment: str | None = None  # TOML, with the values that were chosen
    grid: tuple[Row, ...] = ()  # of the search, one row per point and seed
    chosen: dict[str, dict[str, Any]] | None = None  # by label, then key
    at_edge: dict[str, dict[str, Any]] | None = None
    seconds: float = 0.0


class Kept:
    """Finished panels of unfinished claims, in a hidden folder beside those of the claims.

    A panel is identified by everything that determines its runs, so every claim with the same panel finds it. An
    unfinished panel has one part per strategy. Nothing is kept if a claim writes no folder.
    """

    def __init__(self, out: Path | None) -> None:
        """Panels for the claim whose folder will be `out`."""
        self.folder = None if out is None else out.parent / ".panels"

    def find(self, asked: str, part: str = "") -> Panel | None:
        """The kept panel, or one of its parts, with the same runs."""
        folder = self._folder(asked, part)
        if folder is None or not (folder / KEPT).is_file():
            return None
        fields = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        return Panel(tuple(read_curves(folder / CURVES)), **(fields | {"grid": tuple(fields["grid"])}))

    def keep(self, asked: str, panel: Panel, part: str = "") -> None:
        """Keep a finished panel instead of its parts, or a part; a half-written one is never read."""
        folder = self._folder(asked, part)
        if folder is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_curves(panel.curves, folder / CURVES)
        fields = {name: value for name, value in vars(panel).items() if name != "curves"}
        with whole_file(folder / KEPT) as draft:
            draft.write_text(json.dumps(fields), encoding="utf-8")

    def forget(self, asked: Iterable[str]) -> None:
        """Remove the panels of a finished claim."""
        for panel in asked:
            if (folder := self._folder(panel)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
        if self.folder is not None and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _folder(self, asked: str, part: str = "") -> Path | None:
        names = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in (asked, part) if text]
        return None if self.folder is None else self.folder.joinpath(*names)
