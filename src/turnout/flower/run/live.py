"""What a server that runs for days says of itself: one line per step, and numbers for Prometheus."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from turnout.flower.server.flow import Flow
from turnout.flower.server.turn import RoundRecord

_PORTS = 2**16


def live_numbers(flow: Flow, record: RoundRecord) -> dict[str, float | int]:
    """Numbers of the last step, and of what is under way."""
    hours = 0.0 if flow.origin is None else (flow.clock.now() - flow.origin) / 3600.0
    ages = [one.age for one in flow.arrivals[-len(record.arrived) :] if one.outcome == "used"] if record.arrived else []
    return {
        "step": record.t + 1,
        "steps_per_hour": round((record.t + 1) / hours, 2) if hours > 0 else 0.0,
        "arrived": len(record.arrived),
        "at_work": len(flow.working),
        "waiting": len(flow.jobs) - len(flow.working),
        "age_median": float(np.median(ages)) if ages else 0.0,
        "age_most": float(max(ages, default=0)),
        "clients": len(flow.driver.directory),
        "silent": len(flow.driver.directory.silent),
        **{f"never_counted_{name}": count for name, count in flow.counts.items()},
    }


def line_of(flow: Flow, record: RoundRecord) -> str:
    """The same as one line of `name=value`, with the names of who is silent."""
    numbers = {name: value for name, value in live_numbers(flow, record).items() if name != "silent"}
    silent = ",".join(sorted(flow.driver.directory.silent)[:5]) or "nobody"
    return " ".join(f"{name}={value:g}" for name, value in numbers.items()) + f" silent={silent}"


class MetricsPage:
    """The last numbers in the text format of Prometheus, at an address, while a training runs."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or int(port) >= _PORTS:
            raise ValueError(f"metrics_address must be like '127.0.0.1:9100', a host and a port, not {address!r}")
        self._place = (host.strip("[]"), int(port))
        self.numbers: dict[str, float | int] = {}
        self.port = 0  # at which it is served

    def text(self) -> str:
        """The page."""
        lines = []
        for name, value in self.numbers.items():
            lines += [f"# TYPE turnout_{name} gauge", f"turnout_{name} {value}"]
        return "\n".join(lines) + "\n"

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Serve the page in a thread of its own."""
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path == "/metrics"
                content = (page.text() if found else "the numbers are at /metrics\n").encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: a line every few seconds would hide the log."""

        try:
            server = ThreadingHTTPServer(self._place, Handler)
        except OSError as error:
            raise RuntimeError(f"metrics_address {self._place[0]}:{self._place[1]} cannot be used: {error}") from error
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
