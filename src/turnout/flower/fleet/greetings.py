"""Greetings that ask new nodes for their names, without waiting for nodes that never answer."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from flwr.app import ConfigRecord, Message, RecordDict

from turnout.flower.wire.messages import CONFIG, HELLO, KEEP, SIZE, error_in
from turnout.flower.wire.polling import PollingGrid

log = logging.getLogger("turnout.flower")

_LONGEST_PAUSE = 3600.0  # seconds until a node that has not answered is asked again


class Greetings:
    """Greetings without an answer yet, the answers, and when to ask silent nodes again.

    A node that does not answer within the timeout, or fails, is asked again after a pause that doubles each time: a
    listed node may be dead, and must not delay the others.
    """

    def __init__(self, timeout: float, wants_size: bool, keeps: bool = False) -> None:
        self._timeout = timeout
        self._question = RecordDict({CONFIG: ConfigRecord({SIZE: wants_size, KEEP: keeps})})
        self._out: dict[str, tuple[int, float]] = {}  # node and end of the wait, by message
        self._pause: dict[int, float] = {}  # of nodes that have failed
        self._again: dict[int, float] = {}  # when to ask these again
        self.answers: dict[int, RecordDict] = {}

    def keep_nodes(self, listed: Collection[int]) -> None:
        """Forget the nodes that are not listed any more."""
        self._out = {number: (node, end) for number, (node, end) in self._out.items() if node in listed}
        for by_node in (self._pause, self._again, self.answers):
            for node in [node for node in by_node if node not in listed]:
                del by_node[node]

    def send(self, grid: PollingGrid, nodes: Iterable[int], t: int) -> set[int]:
        """Greet the nodes that are due, and collect answers; returns those of them that have never failed."""
        self.collect(grid)
        now, waiting = grid.clock.now(), {node for node, _ in self._out.values()}
        due = [
            node
            for node in nodes
            if node not in waiting and node not in self.answers and now >= self._again.get(node, now)
        ]
        sent = [Message(self._question, node, HELLO, ttl=self._timeout, group_id=str(t)) for node in due]
        numbers = list(grid.push_messages(sent)) if sent else []
        for number, node in zip(numbers, due, strict=False):
            if number:
                self._out[number] = (node, now + self._timeout)
        self.collect(grid)
        return {node for node in due if node not in self._pause}

    def wait(self, grid: PollingGrid, nodes: Collection[int]) -> None:
        """Wait until these nodes have answered, or their time is over."""
        while ends := [end for node, end in self._out.values() if node in nodes]:
            grid.clock.sleep(max(0.0, min(grid.interval, max(ends) - grid.clock.now())))
            self.collect(grid)

    def collect(self, grid: PollingGrid) -> None:
        """Collect the answers, and give up on those that are overdue."""
        if not self._out:
            return
        for reply in grid.pull_messages(list(self._out)):
            node, _ = self._out.pop(reply.metadata.reply_to_message_id, (None, 0.0))
            if node is not None and reply.has_content():
                self.answers[node] = reply.content
                self._pause.pop(node, None)
            elif node is not None:
                self.postpone(grid, node, error_in(reply))
        now = grid.clock.now()
        for number, (node, end) in list(self._out.items()):
            if now >= end:
                del self._out[number]
                self.postpone(grid, node, "it did not say who it is")

    def postpone(self, grid: PollingGrid, node: int, why: str) -> None:
        """Ask a node again, after a pause."""
        self.answers.pop(node, None)
        pause = self._pause[node] = min(2 * self._pause.get(node, self._timeout / 2), _LONGEST_PAUSE)
        self._again[node] = grid.clock.now() + pause
        log.warning("node %d cannot join: %s; it is asked again in %.0f s", node, why, pause)
