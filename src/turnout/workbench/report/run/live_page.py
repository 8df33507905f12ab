"""A page that renews itself while a run goes on, served to this machine alone: how far it is, and its report so far."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from turnout.errors import FolderError, UserError
from turnout.metrics import metric_named
from turnout.workbench.experiment.progress import Standing
from turnout.workbench.report.diagnosis.readable import duration, percent
from turnout.workbench.report.page.shell import page, paragraph, progress
from turnout.workbench.report.run.compared import Compared, relabel_points
from turnout.workbench.report.run.run_page import REPORT, RunReport, Source

NOTHING_YET = "No strategy is finished yet: each appears here with its curves as soon as it is."
LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")  # by which this machine may call itself
POLL = 0.1  # seconds after which a server hears that it should end, at most


def version(standing: Standing) -> str:
    """Changes when the page has something else to show than progress."""
    return f"{standing.state} {len(standing.outcomes)}"


def words(standing: Standing, folder: Path) -> str:
    """How far the run is, in a sentence."""
    if standing.state == "stopped":
        return f"Stopped at {percent(standing.share)}: go on with turnout run --resume {folder}"
    if standing.state == "finished":
        return "The run is finished."
    left = "the time left is not known yet"
    if standing.left is not None:
        left = f"about {duration(max(standing.left, 2.0), '.0f')} left"
    values = [
        f"{metric_named(name).words} {value:.3g}"
        for name, value in sorted(standing.latest.items())
        if value is not None
    ]
    newest = f" Newest values: {', '.join(values)}." if values else ""
    return f"{percent(standing.share)} done, {left}.{newest}"


def live_page(standing: Standing, folder: Path) -> str:
    """The whole page; of a finished run, its report."""
    if standing.state == "finished":
        report = folder / REPORT
        return (
            report.read_text(encoding="utf-8") if report.is_file() else RunReport.of_runs([Source.read(folder)]).page()
        )
    title = standing.title or folder.absolute().name
    top = progress(standing.share, words(standing, folder), version(standing))
    if not standing.outcomes:
        return page(title, [top, paragraph([NOTHING_YET], "soft")], {}, live=True)
    so_far = f"Of the {len(standing.outcomes)} that are finished so far."
    return RunReport(relabel_points(Compared(title, standing.outcomes)), origin=so_far).page(top)


class LiveServer(ThreadingHTTPServer):
    """Serves the page of one run folder, and how far its run is."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._built = ("", b"")  # the version of the page, and the page
        self._building = threading.Lock()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UserError(f"--port {port}: {why}: give another one, or none for any that is free") from error

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def page(self) -> bytes:
        """The page, built anew only if there is more to show."""
        with self._building:
            standing = Standing.of(self.folder)
            if self._built[0] != version(standing):
                self._built = (version(standing), live_page(standing, self.folder).encode())
            return self._built[1]

    def progress(self) -> bytes:
        """How far the run is, as JSON."""
        standing = Standing.of(self.folder)
        about = {"version": version(standing), "share": standing.share, "words": words(standing, self.folder)}
        return json.dumps(about).encode()


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page and its progress, and with nothing else."""

    server: LiveServer

    def do_GET(self) -> None:
        answers = {"/": (self.server.page, "text/html"), "/progress": (self.server.progress, "application/json")}
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in NAMES:  # a name of another site that leads to this machine
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path not in answers:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._answer(*answers[self.path])

    def _answer(self, content: Callable[[], bytes], kind: str) -> None:
        try:
            body = content()
        except FolderError as error:  # the run failed before it left anything
            self.send_error(HTTPStatus.GONE, explain=str(error))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to the command."""
