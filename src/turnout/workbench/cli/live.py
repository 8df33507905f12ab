"""`--watch` and `--live`: a page that renews itself while a run goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


def watch_run(folder: Path, port: int) -> None:
    """Serve the page of a run folder until the command is stopped."""
    from turnout.workbench.experiment.standing import Standing
    from turnout.workbench.report.run.live_server import POLL, LiveServer

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
    from turnout.workbench.report.run.live_server import POLL, LiveServer

    with LiveServer(folder, 0) as server:
        typer.echo(f"Live: {server.address} (on this machine alone, until the run ends)", err=True)
        threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True, name="live").start()
        try:
            yield
        finally:
            server.shutdown()
