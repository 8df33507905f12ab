"""`turnout run`: simulate an experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnout.cli.compilation import prepare_compilation
from turnout.cli.folders import import_from, new_folder, stem_of
from turnout.cli.options import DEMO, AsJson, Debug, Experiment, Quiet, Settings
from turnout.cli.terminal import one_line_errors, print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.experiment.run import Run


def run_command(
    experiment: Experiment = DEMO,
    rounds: Annotated[int | None, typer.Option(help="Rounds, instead of the experiment's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, instead of the experiment's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/<experiment>-<time> if not given.")] = None,
    settings: Settings = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Simulate the strategies of an experiment and compare them; without an argument, a demo."""
    changes = [f"{name}={value}" for name, value in (("rounds", rounds), ("seeds", seeds)) if value is not None]
    with one_line_errors(debug):
        folder = out or new_folder(stem_of(experiment))
        finished = _simulate(experiment, (*(settings or []), *changes), folder, show_progress=not quiet)
        if as_json:
            from turnout.report.run.run_words import summary

            typer.echo(json.dumps(summary(finished) | {"folder": str(folder)}, indent=2))
        elif quiet:
            typer.echo(str(folder))
        else:
            _print_result(finished, experiment, folder)


def _simulate(source: str, settings: tuple[str, ...], folder: Path, show_progress: bool) -> Run:
    """Check, build and run an experiment, and write its run folder."""
    import_from(Path.cwd(), Path(source).absolute().parent)
    from turnout.experiment.config import read_experiment
    from turnout.experiment.run import run
    from turnout.experiment.store import save
    from turnout.files.whole import free_folder

    experiment = read_experiment(source, settings)
    free_folder(folder)
    prepare_compilation()
    with progress_bar(show_progress) as bar:
        finished = run(experiment, progress=bar, watch=bar and bar.watch)
    save(finished, folder, extra=lambda run, work: _show(run, work, folder.name))
    return finished


def _show(finished: Run, work: Path, name: str) -> None:
    """Write the report, and its two main figures as files."""
    from turnout.report.run.plots import write_figures
    from turnout.report.run.run_page import add_report

    write_figures(finished, work)
    add_report(finished, work, name)


def _print_result(finished: Run, source: str, folder: Path) -> None:
    from turnout.report.run.run_table import results
    from turnout.report.run.run_words import result

    places = (f"\nRun folder: {folder}", f"Report: {folder / 'report.html'}")
    print_lines(results(finished), result(finished), *places, f"Next: {_next_command(source, folder)}")


def _next_command(source: str, folder: Path) -> str:
    if source == DEMO:
        return "turnout run demo --set facts=online   (the server must estimate who is available how often)"
    return f"turnout run {folder / 'experiment.toml'} --seeds 20   (the same with more seeds)"
