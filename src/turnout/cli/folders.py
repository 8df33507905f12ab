"""Folders that commands write, and where modules of the user are found."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from pathlib import Path


def new_folder(stem: str) -> Path:
    """A folder under runs/, named after its source and the time."""
    return Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"


def stem_of(experiment: str) -> str:
    """Name for a run folder; a rerun of a run folder's own file keeps the name of the experiment."""
    path = Path(experiment)
    if path.is_dir():
        path = path / "experiment.toml"
    if path.name == "experiment.toml":
        return re.sub(r"-\d{8}-\d{6}$", "", path.absolute().parent.name)
    return path.stem


def import_from(*folders: Path) -> None:
    """Let `module:Class` name a module beside the experiment or in the present folder; what is installed wins."""
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
