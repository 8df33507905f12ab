"""`turnout report`: run folders as one page; `--watch` and `--live`: pages of runs that go on; `--log-to`: trackers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from turnout.errors import UserError, nearest
from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command
from turnout.workbench.cli.folders import run_folder
from turnout.workbench.cli.options import LogTo

if TYPE_CHECKING:
    from turnout.workbench.experiment.run import Run

TRACKERS = ("mlflow", "wandb", "tensorboard")


@command(quiet="Print the page's path and nothing else.")
def report_command(
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN…", help="Run folders, as `turnout run` leaves them.", autocompletion=completion.runs),
    ],
    out: Annotated[
        Path | None, Option(help="The page; RUN/report.html if not given, report.html for several runs.")
    ] = None,
    watch: Annotated[
        bool, Option("--watch", help="Serve a page that renews itself while the run goes on, until Ctrl-C.")
    ] = False,
    port: Annotated[int, Option(help="Of --watch: where to serve; any that is free if not given.")] = 0,
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


def watch_run(folder: Path, port: int) -> None:
    """Serve the page of a run folder until the command is stopped."""
    from turnout.workbench.experiment.progress import Standing
    from turnout.workbench.report.run.live_page import POLL, LiveServer

    Standing.of(folder)
    with LiveServer(folder, port) as server:
        typer.echo(f"Page: {server.address} (on this machine alone; Ctrl-C ends it)")
        server.serve_forever(POLL)


@contextmanager
def serve_beside(folder: Path, wanted: bool) -> Iterator[None]:
    """Serve the page of a run folder beside the run, if that is wanted."""
    if not wanted:
        yield
        return
    from turnout.workbench.report.run.live_page import POLL, LiveServer

    with LiveServer(folder, 0) as server:
        typer.echo(f"Live: {server.address} (on this machine alone, until the run ends)", err=True)
        threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True, name="live").start()
        try:
            yield
        finally:
            server.shutdown()


def check_log(tracker: str | None) -> None:
    """Refuse a tracker that there is not, or whose library is not installed, before anything is begun."""
    if tracker is None:
        return
    if tracker not in TRACKERS:
        raise UserError(f"--log-to {tracker}: there is no such tracker: {nearest(tracker, TRACKERS)}")
    from turnout.workbench.report.tracking import import_tracker

    import_tracker(tracker)


def log_run(tracker: str | None, run: Run, folder: Path) -> None:
    """Tell a tracker of a run, if one was named, and say where it is; standard output is the command's own."""
    if tracker is not None:
        from turnout.workbench.report.tracking import log_to

        typer.echo(log_to(tracker, run, folder), err=True)
