"""`turnout tune`: the best point of each strategy's sweep, by validation data."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnout.metrics import VALIDATION_ACCURACY
from turnout.workbench.cli.cells import check_place, compute_on, last_of_cells
from turnout.workbench.cli.compilation import prepare_compilation
from turnout.workbench.cli.folders import new_folder, opened, resumed_run, stem_of
from turnout.workbench.cli.options import DEMO, AsJson, Cells, Debug, Experiment, On, Quiet, Resume, Settings, Trust
from turnout.workbench.cli.stopping import say_when_stopped
from turnout.workbench.cli.terminal import one_line_errors, print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.experiment.config import Experiment as Described
    from turnout.workbench.experiment.tuning import Tuned
    from turnout.workbench.experiment.unfinished import Unfinished

FIRST_SEED = 1000  # of a search, so that a later run has fresh seeds


def tune_command(
    experiment: Experiment = DEMO,
    metric: Annotated[str, typer.Option(help="By which to choose; not one of the test data.")] = VALIDATION_ACCURACY,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A swept key to compare rather than choose, dotted.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help=f"Seeds to search with: {FIRST_SEED}, {FIRST_SEED + 1}, …")] = 3,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of the experiment's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; runs/<experiment>-tuned-<time> if not given.")] = None,
    settings: Settings = None,
    resume: Resume = None,
    cells: Cells = None,
    on: On = None,
    trust: Trust = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose each strategy's learning rates, or whatever is swept, by validation data."""
    with one_line_errors(debug):
        from turnout.arguments import MAX_COUNT, MAX_RUNS, at_least

        at_least("seeds", seeds, 1, MAX_RUNS)
        at_least("rounds", rounds or 1, 1, MAX_COUNT)
        check_place(on, cells)
        if resume is not None:
            given = {"experiment": experiment != DEMO, "changes": settings, "--keep": keep, "--rounds": rounds}
            work = resumed_run(resume, "tune", trust, **given, out=out, **{"--cells": cells})
        else:
            asked = opened(experiment, settings, trust)
            searched, options = _searched(asked, metric, keep or [], seeds, rounds)
            modules = Path(experiment).absolute().parent
            if cells is not None:
                work = last_of_cells(cells, out, "tune", searched, options, modules, quiet, as_json)
            else:
                work = _begun(searched, options, experiment, modules, out)
        with work as unfinished:
            if unfinished is None:
                return
            say_when_stopped(unfinished.advice)
            tuned = _tune(unfinished, on, show_progress=not quiet)
        say_when_stopped(f"the search is finished: {unfinished.folder}")
        if as_json:
            from turnout.workbench.report.run.tuning_table import choices_summary

            typer.echo(json.dumps(choices_summary(tuned) | {"folder": str(unfinished.folder)}, indent=2))
        elif quiet:
            typer.echo(str(unfinished.folder))
        else:
            _print_choices(tuned, unfinished.folder)


def _searched(
    asked: Described, metric: str, keep: list[str], seeds: int, rounds: int | None
) -> tuple[Described, dict[str, Any]]:
    """The experiment of the search, and what is needed to choose from its points."""
    from turnout.workbench.experiment.sweep import points
    from turnout.workbench.experiment.tuning import check_keep, check_metric

    check_metric(metric)
    searched = replace(asked, seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)), rounds=rounds or asked.rounds)
    check_keep(points(searched), keep)
    return searched, {"metric": metric, "keep": keep, "seeds": list(asked.seeds), "rounds": asked.rounds}


def _begun(
    searched: Described, options: dict[str, Any], source: str, modules: Path, out: Path | None
) -> AbstractContextManager[Unfinished]:
    from turnout.workbench.experiment.unfinished import begun

    folder = out or new_folder(f"{stem_of(source)}-tuned")
    return begun(folder, "tune", searched, options, modules, numbered=out is None)


def _tune(unfinished: Unfinished, on: str | None, show_progress: bool) -> Tuned:
    """Search, and write the experiment that was asked for with the chosen values."""
    from turnout.workbench.experiment.tuning import tune, write_tuned

    prepare_compilation()
    searched, options = unfinished.experiment, unfinished.options
    with progress_bar(show_progress, "searching") as progress:
        compute_on(on, unfinished, progress)
        kept = unfinished.kept
        tuned = tune(searched, options["metric"], tuple(options["keep"]), progress=progress, kept=kept)
    tuned = replace(tuned, run=replace(tuned.run, origin=unfinished.origin))
    asked = replace(searched, seeds=tuple(options["seeds"]), rounds=options["rounds"])
    unfinished.commit(lambda work: write_tuned(tuned, asked, work))
    return tuned


def _print_choices(tuned: Tuned, folder: Path) -> None:
    from turnout.workbench.report.run.tuning_table import choices_table, choices_words, relabel_choices

    ends = (f"\nTuned experiment: {folder / 'experiment.toml'}", f"Next: turnout run {folder / 'experiment.toml'}")
    shown = relabel_choices(tuned)
    print_lines(choices_table(shown), choices_words(shown), *ends)
