"""Greetings that ask new nodes for their names, without waiting for nodes that never answer."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from flwr.app import ConfigRecord, Message, RecordDict

from turnout.flower.wire.mailbox import Settings
from turnout.flower.wire.messages import CONFIG, HELLO, error_in, is_of_link, knows_no_greeting
from turnout.flower.wire.retries import PollingGrid

log = logging.getLogger("turnout.flower")

_LIFE = 24 * 3600.0  # seconds for which a greeting waits for its node: rounds may be long, and nodes busy
_LONGEST_PAUSE = 3600.0  # seconds until a node that has failed is asked again
_TRIES = 3  # failures after which an app is taken for one that knows no greetings


class Greetings:
    """Greetings without an answer yet, the answers, and when to ask nodes again that have failed.

    A greeting lies at the link until its node takes it, so a slow node answers late and a dead one never: neither
    delays the others. A node that fails is asked again after a pause that doubles each time.
    """

    def __init__(self, timeout: float, question: Settings) -> None:
        self._timeout = timeout
        self._question = RecordDict({CONFIG: ConfigRecord(dict(question))})
        self._out: dict[str, tuple[int, float]] = {}  # node and end of the wait, by message
        self._failures: dict[int, int] = {}
        self._again: dict[int, float] = {}  # when to ask these again
        self.answers: dict[int, RecordDict] = {}
        self.speechless: set[int] = set()  # nodes whose app knows no greetings

    def keep_nodes(self, listed: Collection[int]) -> None:
        """Forget the nodes that are not listed any more."""
        self._out = {number: (node, end) for number, (node, end) in self._out.items() if node in listed}
        self.speechless &= set(listed)
        for by_node in (self._failures, self._again, self.answers):
            for node in [node for node in by_node if node not in listed]:
                del by_node[node]

    def send(self, grid: PollingGrid, nodes: Iterable[int], t: int) -> None:
        """Greet the nodes that are due, and collect answers."""
        self.collect(grid)
        now, waiting = grid.clock.now(), {node for node, _ in self._out.values()}
        settled = waiting | self.answers.keys() | self.speechless
        due = [node for node in nodes if node not in settled and now >= self._again.get(node, now)]
        sent = [Message(self._question, node, HELLO, ttl=_LIFE, group_id=str(t)) for node in due]
        numbers = list(grid.push_messages(sent)) if sent else []
        for number, node in zip(numbers, due, strict=False):
            if number:
                self._out[number] = (node, now + self._timeout)
        self.collect(grid)

    def wait(self, grid: PollingGrid) -> None:
        """Wait for the answers of nodes that were just greeted, until their time is over."""
        while any(grid.clock.now() < end for _, end in self._out.values()):
            last = max(end for _, end in self._out.values())
            grid.clock.sleep(max(0.0, min(grid.interval, last - grid.clock.now())))
            self.collect(grid)

    def collect(self, grid: PollingGrid) -> None:
        """Collect the answers so far."""
        for reply in grid.pull_messages(list(self._out)) if self._out else ():
            node, _ = self._out.pop(reply.metadata.reply_to_message_id, (None, 0.0))
            if node is None:
                continue
            if reply.has_content():
                self.answers[node] = reply.content
                continue
            failures = self._failures.get(node, 0) + 1
            if not is_of_link(reply, node) and (knows_no_greeting(reply) or failures >= _TRIES):
                self.speechless.add(node)
            else:
                self.postpone(grid, node, error_in(reply))

    def postpone(self, grid: PollingGrid, node: int, why: str) -> None:
        """Ask a node again, after a pause."""
        self.answers.pop(node, None)
        failures = self._failures[node] = self._failures.get(node, 0) + 1
        pause = min(self._timeout * 2.0 ** min(failures - 1, 30), _LONGEST_PAUSE)
        self._again[node] = grid.clock.now() + pause
        log.warning("node %d cannot join: %s; it is asked again in %.0f s", node, why, pause)
