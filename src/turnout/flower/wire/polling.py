"""Flower's grid with our own polling interval, and with repeated calls where it fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

log = logging.getLogger("turnout.flower")

Answer = TypeVar("Answer")

_TRANSPORT = {"flwr", "grpc", "http", "httpcore", "httpx", "requests", "urllib3"}  # packages of transport errors
_WORTH_ANOTHER_TRY = {408, 425, 429}  # HTTP refusals that may pass
_BAD_REQUESTS = {"FAILED_PRECONDITION", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"}  # codes of gRPC
_REFUSALS = _BAD_REQUESTS | {"PERMISSION_DENIED", "UNAUTHENTICATED"}
_LONGEST_PAUSE = 30.0  # seconds
_TOGETHER = 64  # replies that are fetched in one call if each is handed on


class Clock:
    """Real time; tests have a clock of their own."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class PollingGrid(Grid):
    """Another grid whose replies are fetched at once, then every `interval` seconds, and a last time at the end.

    A call that fails in transport, such as while the SuperLink restarts, is repeated after pauses that double, for at
    most `patience` seconds. After that no node is listed, nothing was sent, or nothing arrived, and the round goes on.
    Errors other than transport failures, such as an invalid message, are raised.

    With `on_reply`, `send_and_receive` hands each reply to that function as it comes, and returns none of them: a
    thousand models need not be in memory at once.
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
        self.on_reply: Callable[[Message], None] | None = None

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
        """Ids of the messages that were sent; a failed call may have sent some, so those keep their ids."""
        sent = list(messages)
        numbers = self._patiently("send messages", lambda: list(self.inner.push_messages(sent)), [])
        return [number or message.metadata.message_id for number, message in zip(numbers, sent, strict=False)]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies so far; none if the call fails, since it is repeated at the next poll anyway."""
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
            waiting -= self._fetch(sorted(waiting), replies)
            if last:
                break
            if waiting:
                left = self.interval if end is None else min(self.interval, end - self.clock.now())
                self.clock.sleep(max(left, 0.0))
        return replies

    def _fetch(self, waiting: Sequence[str], replies: list[Message]) -> set[str]:
        """Fetch what is there for these messages, a few at a time if it is handed on; returns which were answered."""
        answered: set[str] = set()
        together = len(waiting) if self.on_reply is None else _TOGETHER
        for first in range(0, len(waiting), together):
            asked = set(waiting[first : first + together])
            fresh = [reply for reply in self.pull_messages(asked) if reply.metadata.reply_to_message_id in asked]
            answered |= {reply.metadata.reply_to_message_id for reply in fresh}
            if self.on_reply is None:
                replies += fresh
                continue
            while fresh:
                self.on_reply(fresh.pop(0))  # nothing else holds it then
        return answered

    def begin_round(self, t: int) -> None:
        """Note the round, counted from 1, that comes next; a grid of real nodes has nothing to do."""

    def lull(self, seconds: float) -> None:
        """Wait while no client is available: until the listed nodes change, but at most this many seconds."""
        before, end = set(self.get_node_ids()), self.clock.now() + seconds
        while (left := end - self.clock.now()) > 0 and set(self.get_node_ids()) == before:
            self.clock.sleep(min(self.interval, left))

    def _patiently(
        self, what: str, call: Callable[[], Answer], otherwise: Answer, patience: float | None = None
    ) -> Answer:
        end, pause = self.clock.now() + (self._patience if patience is None else patience), self.interval
        while True:
            try:
                return call()
            except Exception as error:
                if not is_transport_failure(error):
                    raise
                shown = f"{type(error).__name__}: {error!s:.200}"
                left = end - self.clock.now()
                if left <= 0:
                    log.warning("could not %s: %s; continuing without", what, shown)
                    return otherwise
                log.warning("could not %s: %s; trying again in %.0f s", what, shown, min(pause, left))
                self.clock.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)


def is_transport_failure(error: Exception) -> bool:
    """Whether an error is a failure of transport, rather than of the request."""
    homes = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return (isinstance(error, OSError) or bool(homes & _TRANSPORT)) and not _is_refusal(error)


def _is_refusal(error: Exception) -> bool:
    """Whether the link has refused for good: a stopped run, no permission, no such thing."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY
    code = getattr(error, "code", None)
    return callable(code) and getattr(code(), "name", "") in _REFUSALS
