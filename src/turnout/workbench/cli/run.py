"""`turnout run`: simulate an experiment."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from turnout.workbench.cli.command import Output, command, prepare_compilation
from turnout.workbench.cli.folders import (
    begin_work,
    check_place,
    compute_on,
    new_folder,
    open_experiment,
    resume_folder,
    stem_of,
)
from turnout.workbench.cli.options import DEMO, Cells, Experiment, LogTo, On, Resume, Settings, Trust
from turnout.workbench.cli.report import check_log, log_run, serve_beside
from turnout.workbench.cli.stopping import say_when_stopped
from turnout.workbench.cli.terminal import print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.experiment.run import Run
    from turnout.workbench.experiment.unfinished import Unfinished
    from turnout.workbench.report.run.run_page import RunReport


# Long: half of it are its options.
@command()
def run_command(
    experiment: Experiment = DEMO,
    rounds: Annotated[int | None, Option(help="Rounds, instead of the experiment's.")] = None,
    seeds: Annotated[int | None, Option(help="Number of seeds, instead of the experiment's.")] = None,
    out: Annotated[Path | None, Option(help="Run folder; runs/<experiment>-<time> if not given.")] = None,
    settings: Settings = None,
    resume: Resume = None,
    cells: Cells = None,
    on: On = None,
    live: Annotated[bool, Option("--live", help="Serve a page that renews itself while the run goes on.")] = False,
    tracker: LogTo = None,
    trust: Trust = False,
    *,
    output: Output,
) -> None:
    """Simulate the strategies of an experiment and compare them; without an argument, a demo."""
    changes = [f"{name}={value}" for name, value in (("rounds", rounds), ("seeds", seeds)) if value is not None]
    changes = [*(settings or []), *changes]
    check_place(on, cells)
    check_log(tracker)
    if resume is not None:
        given = {"experiment": experiment != DEMO, "changes": changes, "out": out, "--cells": cells}
        work = resume_folder(resume, "run", trust, **given)
    else:
        described = open_experiment(experiment, changes, trust)
        from turnout.workbench.experiment.unfinished import Unfinished

        modules = str(Path(experiment).absolute().parent)
        asked = Unfinished(out or new_folder(stem_of(experiment)), "run", described, modules=modules)
        work = begin_work(asked, out is not None, cells, output)
    with work as unfinished:
        if unfinished is None:
            return
        say_when_stopped(unfinished.advice)
        with serve_beside(unfinished.folder, live):
            finished, report = _simulate(unfinished, on, show_progress=not output.quiet)
    say_when_stopped(f"the run is finished: {unfinished.folder}")
    log_run(tracker, finished, unfinished.folder)
    from turnout.workbench.report.run.run_table import run_summary

    folder = unfinished.folder
    output.tell(
        folder,
        lambda: run_summary(finished) | {"folder": str(folder)},
        lambda: _print_result(report, experiment, changes, folder),
    )


def _simulate(unfinished: Unfinished, on: str | None, show_progress: bool) -> tuple[Run, RunReport]:
    """Run an experiment and write its numbers, and only then its figures and its report."""
    prepare_compilation()
    with progress_bar(show_progress) as bar:
        compute_on(on, unfinished, bar)
        finished = unfinished.run(bar, bar and bar.watch)
    from turnout.files.whole import renew_folder
    from turnout.workbench.report.run.run_page import RunReport, Source

    report = RunReport.of_runs([Source(unfinished.folder, finished)])
    with renew_folder(unfinished.folder) as work:
        report.write(work)
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
