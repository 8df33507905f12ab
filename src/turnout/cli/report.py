"""`turnout report` and `turnout plot`: run folders as one page, and as figures for a paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import completion
from turnout.cli.folders import run_folder
from turnout.cli.live import watch_run
from turnout.cli.logging_to import check_log, log_run
from turnout.cli.options import AsJson, Debug, LogTo
from turnout.cli.terminal import one_line_errors
from turnout.errors import UserError


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…", help="Run folders, as `turnout run` leaves them.", autocompletion=completion.runs
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page; RUN/report.html if not given, report.html for several runs.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Serve a page that renews itself while the run goes on, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="Of --watch: where to serve; any that is free if not given.")] = 0,
    tracker: LogTo = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the page's path and nothing else.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write one page about a run, or about several side by side; it works offline."""
    with one_line_errors(debug):
        for run in runs:
            run_folder(run)
        if watch:
            if len(runs) > 1 or out is not None:
                raise UserError("--watch: serves one run and writes no page: name one run folder, without --out")
            watch_run(runs[0], port)
            return
        check_log(tracker)
        from turnout.experiment.store import load
        from turnout.report.run.run_page import REPORT, write_report

        page = out or (runs[0] / REPORT if len(runs) == 1 else Path(REPORT))
        write_report(runs, page)
        for run in runs if tracker is not None else []:
            log_run(tracker, load(run), run)
        if as_json:
            typer.echo(json.dumps({"page": str(page), "runs": [str(run) for run in runs]}, indent=2))
        else:
            typer.echo(str(page) if quiet else f"Page: {page}")


def plot_command(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run folder, as `turnout run` leaves it.", autocompletion=completion.runs),
    ],
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="curves, availability, weights, groups, clients or staleness.",
            autocompletion=completion.figures,
        ),
    ],
    form: Annotated[
        str | None, typer.Option("--format", metavar="png|svg|pdf", help="By the file's ending, or pdf.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file; KIND.FORMAT in the present folder if not given.")] = None,
    metric: Annotated[str | None, typer.Option(help="Of curves: this one alone, such as test_accuracy.")] = None,
    titled: Annotated[bool, typer.Option("--titled", help="With a title, for a slide rather than a paper.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the file's path and nothing else.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Draw one figure of a run for a paper."""
    with one_line_errors(debug):
        run_folder(run)
        from turnout.experiment.store import load
        from turnout.report.run.plots import for_paper, plot, save_plot

        file = out or Path(f"{kind}.{form or 'pdf'}")
        chart = plot(load(run), kind, metric)
        save_plot(chart if titled else for_paper(chart), file, form)
        if as_json:
            typer.echo(json.dumps({"figure": str(file), "kind": kind, "run": str(run)}, indent=2))
        else:
            typer.echo(str(file) if quiet else f"Figure: {file}")
