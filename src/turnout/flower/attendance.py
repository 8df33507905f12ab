"""Who is there: which client is at which node, and newcomers who join."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Literal

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from turnout.flower.directory import Directory
from turnout.flower.driver import Driver
from turnout.flower.messages import CONFIG, HELLO, SIZE, declared_in, error_in, metrics_in
from turnout.flower.replies import Dropped, check_size

log = logging.getLogger("turnout.flower")

Identity = Literal["declared", "key", "node"]
Target = Literal["uniform", "size"] | Mapping[str, float] | Callable[[str], float]


class Attendance:
    """Takes the roll at the start of a round.

    A node that is not known yet is asked who it is, where its name or the size of its data is needed. A mapping as
    target names the whole fleet: its clients have their places from the start, and others are turned away.
    """

    def __init__(self, identity: Identity, target: Target, timeout: float) -> None:
        if identity not in ("declared", "key", "node"):
            raise ValueError(f"identity must be 'declared', 'key' or 'node', not {identity!r}")
        if isinstance(target, str) and target not in ("uniform", "size"):
            raise ValueError(f"target must be 'uniform', 'size', a mapping or a function of the name, not {target!r}")
        self.identity: Identity = identity
        self.target: Target = target
        self.timeout = timeout
        self._refused: set[str] = set()

    @property
    def greets(self) -> bool:
        """Whether a new node is asked who it is, which an app without our `client_app` does not answer."""
        return self.identity == "declared" or self.target == "size"

    def enrol(self, driver: Driver) -> None:
        """Give places to a fleet that is known beforehand."""
        if isinstance(self.target, Mapping):
            driver.join({self._full(name): worth for name, worth in self.target.items()})

    def take(self, grid: Grid, driver: Driver, t: int) -> list[str]:
        """Names of the clients of the fleet that are listed in this round, newcomers included."""
        nodes = {node.node_id: node.public_key for node in grid.get_nodes()}
        directory = driver.directory
        directory.keep_nodes(nodes)
        new = {node: key for node, key in nodes.items() if directory.client_at(node) is None}
        worths = self._greet(grid, directory, new, t) if self.greets else self._name(directory, new)
        driver.join(worths)
        here = dict.fromkeys(directory.client_at(node) for node in nodes)
        return [name for name in here if name is not None and name in directory]

    def _name(self, directory: Directory, nodes: Mapping[int, bytes]) -> dict[str, float]:
        names = [directory.recognise(node, self._proof(key)) for node, key in nodes.items()]
        return self._worths({name: 1 for name in names if name is not None})

    def _greet(self, grid: Grid, directory: Directory, nodes: Mapping[int, bytes], t: int) -> dict[str, float]:
        asked = RecordDict({CONFIG: ConfigRecord({SIZE: self.target == "size"})})
        sent = [Message(asked, node, HELLO, ttl=self.timeout, group_id=str(t)) for node in nodes]
        replies = grid.send_and_receive(sent, timeout=self.timeout) if sent else []
        answers = {reply.metadata.reply_to_message_id: reply for reply in replies}
        sizes = {}
        for message in sent:
            node, reply = message.metadata.dst_node_id, answers.get(message.metadata.message_id)
            if reply is None or not reply.has_content():
                log.warning("node %d did not say who it is: %s", node, "silence" if reply is None else error_in(reply))
                continue
            size = check_size(metrics_in(reply.content)) if self.target == "size" else 1
            if isinstance(size, Dropped):
                log.warning("node %d cannot join: %s", node, size.reason)
                continue
            declared = declared_in(reply.content) if self.identity == "declared" else None
            name = directory.recognise(node, self._proof(nodes[node]), declared)
            if name is not None:
                sizes[name] = size
        return self._worths(sizes)

    def _proof(self, public_key: bytes) -> bytes:
        # Nodes without authentication have a key too, made up at each start: it proves nothing.
        return public_key if self.identity == "key" else b""

    def _worths(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """By how much newcomers should count; those that the target does not know are left out."""
        worths = {}
        for name, size in sorted(sizes.items()):  # not as they happened to answer
            worth = self._worth(name, size)
            if worth is not None and math.isfinite(worth) and worth > 0:
                worths[name] = worth
            elif name not in self._refused:
                self._refused.add(name)
                log.warning("%s is turned away: its target is %s, and must be a number above 0", name, worth)
        return worths

    def _worth(self, name: str, size: int) -> float | None:
        if isinstance(self.target, Mapping):
            return next((worth for known, worth in self.target.items() if self._full(known) == name), None)
        if callable(self.target):
            return float(self.target(name.partition(":")[2]))
        return float(size) if self.target == "size" else 1.0

    def _full(self, name: str) -> str:
        prefix = {"declared": "id:", "key": "key:", "node": "node:"}[self.identity]
        return name if name.startswith(prefix) else f"{prefix}{name}"
