"""`--cells I/N`: the share of one job among several that write one folder; `--on ray`: cells as tasks of Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import typer

from turnout.errors import UserError
from turnout.workbench.cli.command import prepare_compilation
from turnout.workbench.cli.terminal import progress_bar

if TYPE_CHECKING:
    from turnout.workbench.cli.command import Output
    from turnout.workbench.cli.terminal import Bar
    from turnout.workbench.experiment.on_ray import RayCells
    from turnout.workbench.experiment.unfinished import Unfinished


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
    from turnout.workbench.experiment.cells import Share, compute_share, join_run, put_together

    share = Share.read(cells)
    if not is_named:
        raise UserError(f"--cells {cells}: the jobs write into one folder: name it (--out DIR)")
    prepare_compilation()
    with join_run(asked, share) as unfinished, progress_bar(not output.quiet) as bar:
        compute_share(unfinished, share, bar, bar and bar.watch)
    with put_together(unfinished) as is_last:
        if not is_last:
            _tell_share(unfinished, cells, output)
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


def _tell_share(unfinished: Unfinished, cells: str, output: Output) -> None:
    from turnout.workbench.experiment.cells import num_kept
    from turnout.workbench.experiment.sweep import points

    kept, total = num_kept(unfinished), len(points(unfinished.experiment))
    numbers = {"folder": str(unfinished.folder), "cells": cells, "kept": kept, "of": total}
    writer = "The last job" if kept < total else "Another job"
    line = f"Cells {cells} are finished, {kept} of {total} in all. {writer} writes {unfinished.folder}."
    output.tell(unfinished.folder, lambda: numbers, lambda: typer.echo(line))
