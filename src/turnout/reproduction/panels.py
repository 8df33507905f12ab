"""What a panel of a claim gave, and its strategies before it, kept until the claim's folder is whole.

An interrupted run goes on after them.
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
    """The curves of one panel, and how they came to be."""

    curves: tuple[Curve, ...]
    experiment: str | None = None  # TOML, with the values that were chosen
    grid: tuple[Row, ...] = ()  # of the search, one row a point and seed
    chosen: dict[str, dict[str, Any]] | None = None  # by label, then key
    at_edge: dict[str, dict[str, Any]] | None = None
    seconds: float = 0.0


class Kept:
    """Finished panels of claims that are under way, in a hidden folder beside those of the claims.

    A panel is known by all that decides its runs: whichever call has run it, every claim with the same panel finds it.
    A panel that is itself under way has parts, one a strategy. Nothing is kept where a claim leaves no folder.
    """

    def __init__(self, out: Path | None) -> None:
        """Panels for the claim whose folder will be `out`."""
        self.folder = None if out is None else out.parent / ".panels"

    def find(self, asked: str, part: str = "") -> Panel | None:
        """The panel that was run as it is asked for now, or the part of that name."""
        folder = self._folder(asked, part)
        if folder is None or not (folder / KEPT).is_file():
            return None
        told = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        return Panel(tuple(read_curves(folder / CURVES)), **(told | {"grid": tuple(told["grid"])}))

    def keep(self, asked: str, panel: Panel, part: str = "") -> None:
        """Keep a finished panel in place of its parts, or a part; one half written when the run ends does not count."""
        folder = self._folder(asked, part)
        if folder is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_curves(panel.curves, folder / CURVES)
        told = {name: value for name, value in vars(panel).items() if name != "curves"}
        with whole_file(folder / KEPT) as draft:
            draft.write_text(json.dumps(told), encoding="utf-8")

    def forget(self, asked: Iterable[str]) -> None:
        """Remove panels whose claim is whole."""
        for one in asked:
            if (folder := self._folder(one)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
        if self.folder is not None and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _folder(self, asked: str, part: str = "") -> Path | None:
        names = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in (asked, part) if text]
        return None if self.folder is None else self.folder.joinpath(*names)
