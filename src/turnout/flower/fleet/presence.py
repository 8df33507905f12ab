"""Presence at the start of a round: the client at each node, and newcomers that join."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Literal

from turnout.flower.fleet.greetings import Greetings
from turnout.flower.server.driver import Driver
from turnout.flower.wire.collecting import listed_clients
from turnout.flower.wire.messages import declared_in, metrics_in
from turnout.flower.wire.polling import PollingGrid
from turnout.flower.wire.replies import Dropped, check_size

log = logging.getLogger("turnout.flower")

Identity = Literal["declared", "key", "node"]
Target = Literal["uniform", "size"] | Mapping[str, float] | Callable[[str], float]


class Presence:
    """Finds the clients that are available at the start of a round.

    A new node is asked who it is, if its name or the size of its data is needed. A mapping as target names the whole
    fleet: its clients have their places from the start, and others are turned away. `keeps` says that clients must keep
    their updates until they are asked for: clients that cannot say so when they are greeted.
    """

    def __init__(self, identity: Identity, target: Target, timeout: float, keeps: bool = False) -> None:
        if identity not in ("declared", "key", "node"):
            raise ValueError(f"identity must be 'declared', 'key' or 'node', not {identity!r}")
        if isinstance(target, str) and target not in ("uniform", "size"):
            raise ValueError(f"target must be 'uniform', 'size', a mapping or a function of the name, not {target!r}")
        self.identity: Identity = identity
        self.target: Target = target
        self.timeout = timeout
        self._greetings = Greetings(timeout, target == "size", keeps)
        self._refused: set[str] = set()

    @property
    def greets(self) -> bool:
        """Whether a new node is asked who it is; only apps with our `client_app` answer that."""
        return self.identity == "declared" or self.target == "size"

    @property
    def shown_target(self) -> str:
        """The target in a few words."""
        if isinstance(self.target, Mapping):
            return f"{len(self.target)} clients by name"
        return self.target if isinstance(self.target, str) else "a function of the name"

    def enrol(self, driver: Driver) -> None:
        """Give places to the clients that the target names."""
        if isinstance(self.target, Mapping):
            driver.join({self._full(name): worth for name, worth in self.target.items()})

    def take(self, grid: PollingGrid, driver: Driver, t: int) -> list[str]:
        """Names of the clients of the fleet that are listed in this round, newcomers included.

        Answers to greetings may come while others train. Only if no client is listed, as in the first round, they are
        waited for.
        """
        grid.begin_round(t)
        nodes = {node.node_id: node.public_key for node in grid.get_nodes()}
        directory = driver.directory
        directory.keep_nodes(nodes)
        if not self.greets:
            new = {node: key for node, key in nodes.items() if directory.client_at(node) is None}
            self._join(driver, {directory.recognise(node, self._proof(key)): 1 for node, key in new.items()})
            return listed_clients(driver, nodes)
        self._greetings.keep_nodes(nodes)
        fresh = self._greetings.send(grid, [node for node in nodes if directory.client_at(node) is None], t)
        if not listed_clients(driver, nodes):
            self._greetings.wait(grid, fresh)
        self._recognise(grid, driver, nodes)
        return listed_clients(driver, nodes)

    def _recognise(self, grid: PollingGrid, driver: Driver, nodes: Mapping[int, bytes]) -> None:
        """Give names to the nodes that have answered, and let the new ones join."""
        sizes: dict[str | None, int] = {}
        for node, content in list(self._greetings.answers.items()):
            if driver.directory.client_at(node) is not None:
                continue
            size = check_size(metrics_in(content)) if self.target == "size" else 1
            if isinstance(size, Dropped):
                self._greetings.postpone(grid, node, size.reason)
                continue
            declared = declared_in(content) if self.identity == "declared" else None
            sizes[driver.directory.recognise(node, self._proof(nodes[node]), declared)] = size
        self._join(driver, sizes)

    def _proof(self, public_key: bytes) -> bytes:
        # Nodes without authentication have a key too, a new one at each start: it proves nothing.
        return public_key if self.identity == "key" else b""

    def _join(self, driver: Driver, sizes: Mapping[str | None, int]) -> None:
        """Let newcomers join by name, not in the order of their answers; those without a target are turned away."""
        worths = {}
        for name, size in sorted((name, size) for name, size in sizes.items() if name is not None):
            worth = self._worth(name, size)
            if worth is not None and math.isfinite(worth) and worth > 0:
                worths[name] = worth
            elif name not in self._refused:
                self._refused.add(name)
                log.warning("%s is turned away: its target is %s, and must be a number above 0", name, worth)
        driver.join(worths)

    def _worth(self, name: str, size: int) -> float | None:
        if isinstance(self.target, Mapping):
            return next((worth for short, worth in self.target.items() if self._full(short) == name), None)
        if callable(self.target):
            return float(self.target(name.partition(":")[2]))
        return float(size) if self.target == "size" else 1.0

    def _full(self, name: str) -> str:
        prefix = {"declared": "id:", "key": "key:", "node": "node:"}[self.identity]
        return name if name.startswith(prefix) else f"{prefix}{name}"
