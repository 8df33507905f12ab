"""What a panel of a claim gave, kept until the claim's folder is whole: an interrupted run goes on after it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Finished panels of a claim that is under way; nothing is kept where the claim leaves no folder."""

    def __init__(self, out: Path | None) -> None:
        """Panels for the claim whose folder will be `out`."""
        self.folder = None if out is None else out.parent / f".{out.name}.panels"

    def find(self, number: int, asked: str) -> Panel | None:
        """The panel of this number if it is there and was run as it is asked for now."""
        folder = self._folder(number)
        if folder is None or not (folder / KEPT).is_file():
            return None
        told = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        if told.pop("asked") != asked:
            return None
        return Panel(tuple(read_curves(folder / CURVES)), **(told | {"grid": tuple(told["grid"])}))

    def keep(self, number: int, asked: str, panel: Panel) -> None:
        """Keep a finished panel; one that is being written when the run ends does not count."""
        folder = self._folder(number)
        if folder is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_curves(panel.curves, folder / CURVES)
        told = {name: value for name, value in vars(panel).items() if name != "curves"} | {"asked": asked}
        (folder / f".{KEPT}").write_text(json.dumps(told), encoding="utf-8")
        os.replace(folder / f".{KEPT}", folder / KEPT)

    def forget(self) -> None:
        """Remove what was kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _folder(self, number: int) -> Path | None:
        return None if self.folder is None else self.folder / str(number)
