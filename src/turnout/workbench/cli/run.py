"""`turnout run`: simulate an experiment."""

from __future__ import annotations

import json
import shlex
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnout.workbench.cli.cells import check_place, compute_on, last_of_cells
from turnout.workbench.cli.compilation import prepare_compilation
from turnout.workbench.cli.folders import new_folder, opened, resumed_run, stem_of
from turnout.workbench.cli.live import served
from turnout.workbench.cli.logging_to import check_log, log_run
from turnout.workbench.cli.options import (
    DEMO,
    AsJson,
    Cells,
    Debug,
    Experiment,
    LogTo,
    On,
    Quiet,
    Resume,
    Settings,
    Trust,
)
from turnout.workbench.cli.stopping import say_when_stopped
from turnout.workbench.cli.terminal import one_line_errors, print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.experiment.run import Run
    from turnout.workbench.experiment.unfinished import Unfinished
    from turnout.workbench.report.run.run_page import RunReport


def run_command(
    experiment: Experiment = DEMO,
    rounds: Annotated[int | None, typer.Option(help="Rounds, instead of the experiment's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, instead of the experiment's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/<experiment>-<time> if not given.")] = None,
    settings: Settings = None,
    resume: Resume = None,
    cells: Cells = None,
    on: On = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve a page that renews itself while the run goes on.")
    ] = False,
    tracker: LogTo = None,
    trust: Trust = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Simulate the strategies of an experiment and compare them; without an argument, a demo."""
    changes = [f"{name}={value}" for name, value in (("rounds", rounds), ("seeds", seeds)) if value is not None]
    changes = [*(settings or []), *changes]
    with one_line_errors(debug):
        check_place(on, cells)
        check_log(tracker)
        if resume is not None:
            given = {"experiment": experiment != DEMO, "changes": changes, "out": out, "--cells": cells}
            work = resumed_run(resume, "run", trust, **given)
        elif cells is not None:
            described, modules = opened(experiment, changes, trust), Path(experiment).absolute().parent
            work = last_of_cells(cells, out, "run", described, modules=modules, quiet=quiet, as_json=as_json)
        else:
            work = _begun(experiment, changes, out, trust)
        with work as unfinished:
            if unfinished is None:
                return
            say_when_stopped(unfinished.advice)
            with served(unfinished.folder, live):
                finished, report = _simulate(unfinished, on, show_progress=not quiet)
        say_when_stopped(f"the run is finished: {unfinished.folder}")
        log_run(tracker, finished, unfinished.folder)
        if as_json:
            from turnout.workbench.report.run.run_words import run_summary

            typer.echo(json.dumps(run_summary(finished) | {"folder": str(unfinished.folder)}, indent=2))
        elif quiet:
            typer.echo(str(unfinished.folder))
        else:
            _print_result(report, experiment, changes, unfinished.folder)


def _begun(source: str, changes: list[str], out: Path | None, trust: bool) -> AbstractContextManager[Unfinished]:
    described = opened(source, changes, trust)
    from turnout.workbench.experiment.unfinished import begun

    folder, modules = out or new_folder(stem_of(source)), Path(source).absolute().parent
    return begun(folder, "run", described, modules=modules, numbered=out is None)


def _simulate(unfinished: Unfinished, on: str | None, show_progress: bool) -> tuple[Run, RunReport]:
    """Run an experiment and write its numbers, and only then its figures and its report."""
    prepare_compilation()
    with progress_bar(show_progress) as bar:
        compute_on(on, unfinished, bar)
        finished = unfinished.run(bar, bar and bar.watch)
    from turnout.workbench.report.run.run_page import RunReport, Source

    report = RunReport.of_runs([Source(unfinished.folder, finished)])
    unfinished.commit(report.write)
    return finished, report


def _print_result(report: RunReport, source: str, changes: list[str], folder: Path) -> None:
    places = (f"\nRun folder: {folder}", f"Report: {folder / 'report.html'}")
    print_lines(report.table, report.words, *places, f"Next: {_next_command(source, changes, folder)}")


def _next_command(source: str, changes: list[str], folder: Path) -> str:
    if source == DEMO:
        settings = [part for change in changes for part in ("--set", change)]
        command = shlex.join(["turnout", "audit", DEMO, *settings])
        return f"{command}   (which clients each strategy trains for, without training)"
    return f"{shlex.join(['turnout', 'run', str(folder / 'experiment.toml')])} --seeds 20   (the same with more seeds)"
