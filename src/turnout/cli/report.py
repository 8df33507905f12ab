"""`turnout report`: run folders as one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli import completion
from turnout.cli.folders import run_folder
from turnout.cli.options import AsJson, Debug
from turnout.cli.terminal import one_line_errors


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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the page's path and nothing else.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write one page about a run, or about several side by side; it works offline."""
    with one_line_errors(debug):
        for run in runs:
            run_folder(run)
        from turnout.report.run.run_page import REPORT, write_report

        page = out or (runs[0] / REPORT if len(runs) == 1 else Path(REPORT))
        write_report(runs, page)
        if as_json:
            typer.echo(json.dumps({"page": str(page), "runs": [str(run) for run in runs]}, indent=2))
        else:
            typer.echo(str(page) if quiet else f"Page: {page}")
