"""Flower's grid, asked for replies at an interval of our own, and with patience where it fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

log = logging.getLogger("turnout.flower")

Found = TypeVar("Found")

_TRANSPORT = {"flwr", "grpc", "http", "httpcore", "httpx", "requests", "urllib3"}  # whose errors are the link's
_WORTH_ANOTHER_TRY = {408, 425, 429}  # of the refusals of HTTP
_REFUSALS = {
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "UNIMPLEMENTED",
}
_LONGEST_PAUSE = 30.0  # seconds


class Clock:
    """Time as it passes; tests have one of their own."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class PollingGrid(Grid):
    """Another grid whose replies are fetched at once, then every `interval` seconds, and a last time at the end.

    A call that fails on its way, as while the SuperLink starts again, is made again after pauses that double, for at
    most `patience` seconds. After that nobody is listed, nothing was sent, or nothing came, and the round passes. What
    is no error of the way, such as a message that cannot be, is raised.
    """

    def __init__(self, grid: Grid, interval: float = 1.0, patience: float = 600.0, clock: Clock | None = None) -> None:
        if not interval > 0:
            raise ValueError(f"the interval must be above 0 seconds, not {interval}")
        if not patience >= 0:
            raise ValueError(f"patience must be 0 seconds or more, not {patience}")
        self.inner = grid
        self.interval = interval
        self._patience = patience
        self.clock = Clock() if clock is None else clock

    def set_run(self, run: Any) -> None:
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        return self.inner.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return self.inner.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        return self._patiently("list the nodes", lambda: list(self.inner.get_node_ids()), [])

    def get_nodes(self) -> Iterable[Any]:
        return self._patiently("list the nodes", lambda: list(self.inner.get_nodes()), [])

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Numbers of the messages that were sent.

        A call that failed may have sent some of them: those keep their numbers, and are waited for.
        """
        sent = list(messages)
        numbers = self._patiently("send messages", lambda: list(self.inner.push_messages(sent)), [])
        return [number or message.metadata.message_id for number, message in zip(numbers, sent, strict=False)]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """What has come; a call that fails brings nothing, and the next one is another chance."""
        wanted = list(message_ids)
        return self._patiently("fetch replies", lambda: list(self.inner.pull_messages(wanted)), [], patience=0.0)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        sent = list(messages)
        waiting = {number for number in self.push_messages(sent) if number} if sent else set()
        del messages, sent
        end = None if timeout is None else self.clock.now() + timeout
        replies: list[Message] = []
        while waiting:
            last = end is not None and self.clock.now() >= end
            fresh = [reply for reply in self.pull_messages(waiting) if reply.metadata.reply_to_message_id in waiting]
            replies += fresh
            waiting -= {reply.metadata.reply_to_message_id for reply in fresh}
            if last:
                break
            if waiting:
                left = self.interval if end is None else min(self.interval, end - self.clock.now())
                self.clock.sleep(max(left, 0.0))
        return replies

    def begin_round(self, t: int) -> None:
        """Take note of the round, counted from 1, whose nodes are asked for next: nothing to a grid of real nodes."""

    def lull(self, seconds: float) -> None:
        """Let time pass while nobody can be asked: until other nodes are listed than now, at most so long."""
        before, end = set(self.get_node_ids()), self.clock.now() + seconds
        while (left := end - self.clock.now()) > 0 and set(self.get_node_ids()) == before:
            self.clock.sleep(min(self.interval, left))

    def _patiently(
        self, what: str, call: Callable[[], Found], otherwise: Found, patience: float | None = None
    ) -> Found:
        end, pause = self.clock.now() + (self._patience if patience is None else patience), self.interval
        while True:
            try:
                return call()
            except Exception as error:
                if not is_of_transport(error):
                    raise
                shown = f"{type(error).__name__}: {error!s:.200}"
                left = end - self.clock.now()
                if left <= 0:
                    log.warning("could not %s: %s; going on without", what, shown)
                    return otherwise
                log.warning("could not %s: %s; trying again in %.0f s", what, shown, min(pause, left))
                self.clock.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)


def is_of_transport(error: Exception) -> bool:
    """Whether an error belongs to the way to the link, rather than to what was asked of it."""
    homes = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return (isinstance(error, OSError) or bool(homes & _TRANSPORT)) and not _is_refusal(error)


def _is_refusal(error: Exception) -> bool:
    """Whether the link has answered, and will not answer otherwise: a stopped run, no permission, no such thing."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY
    code = getattr(error, "code", None)
    return callable(code) and getattr(code(), "name", "") in _REFUSALS
