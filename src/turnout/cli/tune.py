"""`turnout tune`: the best point of each strategy's sweep, by validation data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnout.cli.compilation import prepare_compilation
from turnout.cli.folders import opened
from turnout.cli.options import DEMO, AsJson, Debug, Experiment, Quiet, Settings
from turnout.cli.terminal import one_line_errors, print_lines, progress_bar
from turnout.metrics import VALIDATION_ACCURACY

if TYPE_CHECKING:
    from turnout.experiment.tuning import Tuned

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
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose each strategy's learning rates, or whatever is swept, by validation data."""
    with one_line_errors(debug):
        from turnout.arguments import MAX_COUNT, MAX_RUNS, at_least

        at_least("seeds", seeds, 1, MAX_RUNS)
        at_least("rounds", rounds or 1, 1, MAX_COUNT)
        asked, folder = opened(experiment, settings, out, "-tuned")
        from turnout.experiment.tuning import save_tuned, tune

        searched = replace(asked, seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)), rounds=rounds or asked.rounds)
        prepare_compilation()
        with progress_bar(not quiet, "searching") as progress:
            tuned = tune(searched, metric, tuple(keep or ()), progress=progress)
        save_tuned(tuned, asked, folder)
        if as_json:
            from turnout.report.run.tuning_table import choices_summary

            typer.echo(json.dumps(choices_summary(tuned) | {"folder": str(folder)}, indent=2))
        elif quiet:
            typer.echo(str(folder))
        else:
            _print_choices(tuned, folder)


def _print_choices(tuned: Tuned, folder: Path) -> None:
    from turnout.report.run.tuning_table import choices_table, choices_words

    ends = (f"\nTuned experiment: {folder / 'experiment.toml'}", f"Next: turnout run {folder / 'experiment.toml'}")
    print_lines(choices_table(tuned), choices_words(tuned), *ends)
