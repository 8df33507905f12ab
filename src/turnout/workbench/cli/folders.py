"""Where a command writes and computes: its folder, the share of one job among several (`--cells`), or Ray (`--on`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turnout.errors import UserError
from turnout.workbench.cli.command import Output, prepare_compilation
from turnout.workbench.cli.terminal import Bar, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.experiment.experiment_file import Experiment
    from turnout.workbench.experiment.on_ray import RayCells
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
    from turnout.workbench.experiment.experiment_file import Experiment

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


def begin_work(
    asked: Unfinished, is_named: bool, cells: str | None, output: Output
) -> AbstractContextManager[Unfinished | None]:
    """Begin a run in its folder, which takes a number if the user has not named it; or see `_last_of_cells`."""
    if cells is not None:
        return _last_of_cells(asked, is_named, cells, output)
    from turnout.workbench.experiment.unfinished import begin_run

    return begin_run(asked, numbered=not is_named)


@contextmanager
def _last_of_cells(asked: Unfinished, is_named: bool, cells: str, output: Output) -> Iterator[Unfinished | None]:
    """Compute the cells of a share; the unfinished run if it was the last, else None, and a line says so."""
    from turnout.workbench.experiment.cells import Share, compute_share, join_run, num_kept, put_together
    from turnout.workbench.experiment.sweep import points

    share = Share.read(cells)
    if not is_named:
        raise UserError(f"--cells {cells}: the jobs write into one folder: name it (--out DIR)")
    prepare_compilation()
    with join_run(asked, share) as unfinished, progress_bar(not output.quiet) as bar:
        compute_share(unfinished, share, bar, bar and bar.watch)
    with put_together(unfinished) as is_last:
        if not is_last:
            kept, total = num_kept(unfinished), len(points(unfinished.experiment))
            numbers = {"folder": str(unfinished.folder), "cells": cells, "kept": kept, "of": total}
            writer = "The last job" if kept < total else "Another job"
            line = f"Cells {cells} are finished, {kept} of {total} in all. {writer} writes {unfinished.folder}."
            output.tell(unfinished.folder, lambda: numbers, lambda: typer.echo(line))
        yield unfinished if is_last else None


def check_place(on: str | None, cells: str | None = None) -> None:
    """Refuse a place to compute that there is not, before anything is begun."""
    if on is None:
        return
    if on.partition(":")[0] != "ray" or on == "ray:":
        raise UserError(f"--on {on}: give ray, or ray:ADDRESS of a cluster, such as ray:10.0.0.1:6379")
    if cells is not None:
        raise UserError(f"--on {on}: deals the cells by itself: leave out --cells")
    from turnout.workbench.experiment.on_ray import import_ray

    import_ray()


def compute_on(on: str | None, unfinished: Unfinished, bar: Bar | None) -> None:
    """Compute the cells of a run in a place that `check_place` has let pass; nothing if there is none."""
    with cells_on(on) as cells:
        if cells is not None:
            cells.finish(unfinished.experiment, unfinished.kept, bar)


@contextmanager
def cells_on(on: str | None) -> Iterator[RayCells | None]:
    """The place where cells are computed, which `check_place` has let pass; None for this process."""
    if on is None:
        yield None
        return
    from turnout.workbench.experiment.on_ray import cells_on_ray

    with cells_on_ray(on.partition(":")[2] or None) as cells:
        yield cells
