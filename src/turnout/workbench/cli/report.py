"""`turnout report`: run folders as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnout.errors import UserError
from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command
from turnout.workbench.cli.folders import run_folder
from turnout.workbench.cli.live import watch_run
from turnout.workbench.cli.logging_to import check_log, log_run
from turnout.workbench.cli.options import LogTo


@command(quiet="Print the page's path and nothing else.")
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
    *,
    output: Output,
) -> None:
    """Write one page about a run, or about several side by side; it works offline."""
    for run in runs:
        run_folder(run)
    if watch:
        if len(runs) > 1 or out is not None:
            raise UserError("--watch: serves one run and writes no page: name one run folder, without --out")
        watch_run(runs[0], port)
        return
    check_log(tracker)
    from turnout.workbench.experiment.store import load
    from turnout.workbench.report.run.run_page import REPORT, write_report

    page = out or (runs[0] / REPORT if len(runs) == 1 else Path(REPORT))
    write_report(runs, page)
    for run in runs if tracker is not None else []:
        log_run(tracker, load(run), run)
    numbers = {"page": str(page), "runs": [str(run) for run in runs]}
    output.tell(page, lambda: numbers, lambda: typer.echo(f"Page: {page}"))
