"""Folders that commands write, and where modules of the user are found."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnout.experiment.config import Experiment


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


def opened(source: str, settings: Sequence[str] | None, out: Path | None, suffix: str = "") -> tuple[Experiment, Path]:
    """The experiment that a command was given, and a free folder for what comes of it."""
    import_from(Path.cwd(), Path(source).absolute().parent)
    from turnout.experiment.config import read_experiment
    from turnout.files.whole import free_folder

    experiment = read_experiment(source, tuple(settings or ()))
    return experiment, free_folder(out or new_folder(f"{stem_of(source)}{suffix}"))


def import_from(*folders: Path) -> None:
    """Let `module:Class` name a module beside the experiment or in the present folder; what is installed wins."""
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
