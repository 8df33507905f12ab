"""Flower's grid, asked for replies at an interval of our own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid


class PollingGrid(Grid):
    """Another grid whose replies are fetched at once, then every `interval` seconds, and a last time at the end."""

    def __init__(self, grid: Grid, interval: float = 1.0) -> None:
        if not interval > 0:
            raise ValueError(f"the interval must be above 0 seconds, not {interval}")
        self._grid = grid
        self._interval = interval

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        sent = list(messages)
        waiting = {number for number in self.push_messages(sent) if number} if sent else set()
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while waiting:
            last = end is not None and time.monotonic() >= end
            fresh = [reply for reply in self.pull_messages(waiting) if reply.metadata.reply_to_message_id in waiting]
            replies += fresh
            waiting -= {reply.metadata.reply_to_message_id for reply in fresh}
            if last:
                break
            if waiting:
                left = self._interval if end is None else min(self._interval, end - time.monotonic())
                time.sleep(max(left, 0.0))
        return replies
