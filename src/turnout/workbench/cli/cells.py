"""`--cells I/N`: the share of one job among several that write one folder; `--on ray`: cells as tasks of Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from turnout.errors import UserError
from turnout.workbench.cli.compilation import prepare_compilation
from turnout.workbench.cli.terminal import progress_bar

if TYPE_CHECKING:
    from turnout.workbench.cli.terminal import Bar
    from turnout.workbench.experiment.config import Experiment
    from turnout.workbench.experiment.on_ray import RayCells
    from turnout.workbench.experiment.unfinished import Unfinished


@contextmanager
def last_of_cells(
    cells: str,
    out: Path | None,
    command: str,
    experiment: Experiment,
    options: dict[str, Any] | None = None,
    modules: Path | None = None,
    quiet: bool = False,
    as_json: bool = False,
) -> Iterator[Unfinished | None]:
    """Compute the cells of a share; the unfinished run if it was the last, else None, and a line says so."""
    from turnout.workbench.experiment.cells import Share, compute, joined, put_together

    share = Share.read(cells)
    if out is None:
        raise UserError(f"--cells {cells}: the jobs write into one folder: name it (--out DIR)")
    prepare_compilation()
    with joined(out, command, experiment, share, options, modules) as unfinished, progress_bar(not quiet) as bar:
        compute(unfinished, share, bar, bar and bar.watch)
    with put_together(unfinished) as is_last:
        if not is_last:
            _print_share(unfinished, cells, quiet, as_json)
        yield unfinished if is_last else None


def check_place(on: str | None, cells: str | None = None) -> None:
    """Refuse a place to compute that there is not, before anything is begun."""
    if on is None:
        return
    if on.partition(":")[0] != "ray" or on == "ray:":
        raise UserError(f"--on {on}: give ray, or ray:ADDRESS of a cluster, such as ray:10.0.0.1:6379")
    if cells is not None:
        raise UserError(f"--on {on}: deals the cells by itself: leave out --cells")
    from turnout.workbench.experiment.on_ray import imported_ray

    imported_ray()


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


def _print_share(unfinished: Unfinished, cells: str, quiet: bool, as_json: bool) -> None:
    from turnout.workbench.experiment.cells import num_kept
    from turnout.workbench.experiment.sweep import points

    kept, total = num_kept(unfinished), len(points(unfinished.experiment))
    if as_json:
        typer.echo(json.dumps({"folder": str(unfinished.folder), "cells": cells, "kept": kept, "of": total}, indent=2))
    elif quiet:
        typer.echo(str(unfinished.folder))
    else:
        writer = "The last job" if kept < total else "Another job"
        typer.echo(f"Cells {cells} are finished, {kept} of {total} in all. {writer} writes {unfinished.folder}.")
