"""Folders that commands write, and where modules of the user are found."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.errors import UserError

if TYPE_CHECKING:
    from turnout.workbench.experiment.config import Experiment
    from turnout.workbench.experiment.unfinished import Unfinished


def new_folder(stem: str) -> Path:
    """A folder under runs/, named after its source and the time."""
    return Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"


def stem_of(experiment: str) -> str:
    """Name for a run folder; a rerun of a run folder's own file keeps the name of the experiment."""
    path = Path(experiment)
    if path.is_dir():
        path = path / "experiment.toml"
    if path.name == "experiment.toml":
        return re.sub(r"-\d{8}-\d{6}(-\d+)?$", "", path.absolute().parent.name)
    return path.stem


def open_experiment(source: str, settings: Sequence[str] | None, trust: bool) -> Experiment:
    """The experiment that a command was given; names are checked before anything is imported that takes seconds."""
    from turnout.workbench.experiment.registry import check_experiment, check_names
    from turnout.workbench.experiment.trust import read_document

    document, code = read_document(source, settings or (), trust)
    check_experiment(document)
    check_names(document)
    import_from(Path.cwd(), Path(source).absolute().parent, trust=trust)
    from turnout.workbench.experiment.config import Experiment

    return Experiment.read(document, code)


def run_folder(folder: Path) -> Path:
    """A folder that exists, before anything is imported that takes seconds."""
    if not folder.is_dir():
        raise UserError(f"{folder}: not a run folder: there is no such folder; those of `turnout run` are in runs/")
    return folder


def resume_folder(folder: Path, command: str, trust: bool, **given: object) -> AbstractContextManager[Unfinished]:
    """The unfinished run in a folder; other arguments are refused, as it goes on with what was asked at the start."""
    if named := [name for name, value in given.items() if value]:
        raise UserError(f"--resume {folder}: goes on with what was asked at the start: leave out {', '.join(named)}")
    from turnout.workbench.experiment.unfinished import modules_of, resume_run

    import_from(*modules_of(folder), trust=trust)
    return resume_run(folder, command, trust)


def import_from(*folders: Path, trust: bool) -> None:
    """Let `module:Class` name a module of these folders, if they are in the present one or trusted; installed win."""
    from turnout.workbench.experiment.trust import is_trusted

    for folder in folders:
        if is_trusted(folder, trust) and str(folder) not in sys.path:
            sys.path.append(str(folder))
