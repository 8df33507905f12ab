"""When clients were online, by what the SuperLink tells of their nodes."""

import datetime
import time
from collections.abc import Iterable, Mapping
from typing import Any

_PATIENCE = 2  # heartbeat intervals that Flower waits for the next heartbeat before a node is offline
_MISSED = 0.7  # of a heartbeat interval: with less left a node has missed a heartbeat, for they come in time by 0.9

COLUMNS = ("client", "start", "end")


def is_overdue(node: Any, now: float | None = None) -> bool:
    """Whether a node has missed a heartbeat; Flower lists it for some time after that."""
    left = node.online_until - (time.time() if now is None else now)
    return bool(node.online_until) and left < _MISSED * node.heartbeat_interval


class Sessions:
    """Stretches of time in which each client was online.

    A session begins when the client's node is activated, and ends with its last heartbeat. Nothing is known of the time
    before the first look. Grids without heartbeats, such as a simulation's, have no sessions.
    """

    def __init__(self) -> None:
        self._begun: float | None = None  # the first look, in seconds since 1970, as all times here
        self._ends: dict[str, dict[float, float]] = {}  # by client and start
        self._open: dict[str, float] = {}  # start of the present session, by client

    def note(self, client: str, node: Any, now: float | None = None) -> None:
        """Record what the link tells of a client's node."""
        now = time.time() if now is None else now
        self._begun = now if self._begun is None else self._begun
        if not node.online_until or not node.last_activated_at:
            return
        activated = datetime.datetime.fromisoformat(node.last_activated_at).timestamp()
        last_heartbeat = node.online_until - _PATIENCE * node.heartbeat_interval
        start, is_gone = max(activated, self._begun), is_overdue(node, now)
        self._extend(client, start, min(last_heartbeat, now) if is_gone else now)
        self._open.pop(client, None)
        if not is_gone:
            self._open[client] = start

    def go_on(self, listed: Iterable[str], now: float | None = None) -> None:
        """Record that these clients are still listed, where nothing more is known; the sessions of others end."""
        self._open = {client: self._open[client] for client in listed if client in self._open}
        for client, start in self._open.items():
            self._extend(client, start, time.time() if now is None else now)

    def _extend(self, client: str, start: float, end: float) -> None:
        self._ends.setdefault(client, {})[start] = max(start, end)  # earlier than before if a heartbeat was missed

    def rows(self) -> list[tuple[str, str, str]]:
        """Client, start and end of every session, as `turnout diagnose` reads them."""
        return [
            (client, _timestamp(start), _timestamp(end))
            for client, sessions in sorted(self._ends.items())
            for start, end in sorted(sessions.items())
            if end > start
        ]

    def state(self) -> dict[str, Any]:
        """The contents as JSON."""
        return {"begun": self._begun, "ends": {name: list(ends.items()) for name, ends in self._ends.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a former `state`; checkpoints of earlier versions have none."""
        self._begun = state.get("begun")
        self._ends = {
            str(name): {float(start): float(end) for start, end in ends} for name, ends in state.get("ends", {}).items()
        }


def _timestamp(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")
