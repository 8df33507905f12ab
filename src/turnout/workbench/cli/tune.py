"""`turnout tune`: the best point of each strategy's sweep, by validation data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from turnout.metrics import VALIDATION_ACCURACY
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
from turnout.workbench.cli.options import DEMO, Cells, Experiment, On, Resume, Settings, Trust
from turnout.workbench.cli.stopping import say_when_stopped
from turnout.workbench.cli.terminal import print_lines, progress_bar

if TYPE_CHECKING:
    from turnout.workbench.experiment.experiment_file import Experiment as Described
    from turnout.workbench.experiment.tuning import Tuned
    from turnout.workbench.experiment.unfinished import Unfinished

FIRST_SEED = 1000  # of a search, so that a later run has fresh seeds


# Long: half of it are its options.
@command()
def tune_command(
    experiment: Experiment = DEMO,
    metric: Annotated[str, Option(help="By which to choose; not one of the test data.")] = VALIDATION_ACCURACY,
    keep: Annotated[
        list[str] | None, Option(metavar="KEY", help="A swept key to compare rather than choose, dotted.")
    ] = None,
    seeds: Annotated[int, Option(min=1, help=f"Seeds to search with: {FIRST_SEED}, {FIRST_SEED + 1}, …")] = 3,
    rounds: Annotated[int | None, Option(min=1, help="Rounds, instead of the experiment's.")] = None,
    out: Annotated[Path | None, Option(help="Folder; runs/<experiment>-tuned-<time> if not given.")] = None,
    settings: Settings = None,
    resume: Resume = None,
    cells: Cells = None,
    on: On = None,
    trust: Trust = False,
    *,
    output: Output,
) -> None:
    """Choose each strategy's learning rates, or whatever is swept, by validation data."""
    from turnout.declarations import MAX_COUNT, MAX_RUNS
    from turnout.declarations.arrays import at_least

    at_least("seeds", seeds, 1, MAX_RUNS)
    at_least("rounds", rounds or 1, 1, MAX_COUNT)
    check_place(on, cells)
    if resume is not None:
        given = {"experiment": experiment != DEMO, "changes": settings, "--keep": keep, "--rounds": rounds}
        work = resume_folder(resume, "tune", trust, **given, out=out, **{"--cells": cells})
    else:
        described = open_experiment(experiment, settings, trust)
        from turnout.workbench.experiment.unfinished import Unfinished

        searched, options = _search(described, metric, keep or [], seeds, rounds)
        folder, modules = out or new_folder(f"{stem_of(experiment)}-tuned"), str(Path(experiment).absolute().parent)
        work = begin_work(Unfinished(folder, "tune", searched, options, modules), out is not None, cells, output)
    with work as unfinished:
        if unfinished is None:
            return
        say_when_stopped(unfinished.advice)
        tuned = _tune(unfinished, on, show_progress=not output.quiet)
    say_when_stopped(f"the search is finished: {unfinished.folder}")
    from turnout.workbench.report.run.tuning_table import choices_summary

    folder = unfinished.folder
    output.tell(folder, lambda: choices_summary(tuned) | {"folder": str(folder)}, lambda: _print_choices(tuned, folder))


def _search(
    asked: Described, metric: str, keep: list[str], seeds: int, rounds: int | None
) -> tuple[Described, dict[str, Any]]:
    """The experiment of the search, and what is needed to choose from its points."""
    from turnout.workbench.experiment.sweep import points
    from turnout.workbench.experiment.tuning import check_keep, check_metric

    check_metric(metric)
    searched = replace(asked, seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)), rounds=rounds or asked.rounds)
    check_keep(points(searched), keep)
    return searched, {"metric": metric, "keep": keep, "seeds": list(asked.seeds), "rounds": asked.rounds}


def _tune(unfinished: Unfinished, on: str | None, show_progress: bool) -> Tuned:
    """Search, and write the experiment that was asked for with the chosen values."""
    from turnout.files.whole import renew_folder
    from turnout.workbench.experiment.tuning import tune, write_tuned

    prepare_compilation()
    searched, options = unfinished.experiment, unfinished.options
    with progress_bar(show_progress, "searching") as progress:
        compute_on(on, unfinished, progress)
        kept = unfinished.kept
        tuned = tune(searched, options["metric"], tuple(options["keep"]), progress=progress, kept=kept)
    tuned = replace(tuned, run=replace(tuned.run, origin=unfinished.origin))
    asked = replace(searched, seeds=tuple(options["seeds"]), rounds=options["rounds"])
    with renew_folder(unfinished.folder) as work:
        write_tuned(tuned, asked, work)
    return tuned


def _print_choices(tuned: Tuned, folder: Path) -> None:
    from turnout.workbench.report.run.tuning_table import choices_table, choices_words, relabel_choices

    ends = (f"\nTuned experiment: {folder / 'experiment.toml'}", f"Next: turnout run {folder / 'experiment.toml'}")
    shown = relabel_choices(tuned)
    print_lines(choices_table(shown), choices_words(shown), *ends)
