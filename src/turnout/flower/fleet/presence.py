"""Presence at the start of a round: the client at each node, greetings to new nodes, and newcomers that join."""

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from turnout.flower.fleet.directory import Sessions, is_overdue
from turnout.flower.secure.words import WANTED
from turnout.flower.server.demands import Demands
from turnout.flower.server.driver import Driver
from turnout.flower.server.places import WORTHS, can_count
from turnout.flower.settings import Members, Target
from turnout.flower.wire import messages, side
from turnout.flower.wire.client_metrics import Dropped
from turnout.flower.wire.exchange import Settings
from turnout.flower.wire.replies import Goodbye, check_size
from turnout.flower.wire.retries import PollingGrid
from turnout.flower.wire.side_names import SIDE
from turnout.strategies.base import Strategy

log = logging.getLogger("turnout.flower")

_LIFE = 24 * 3600.0  # seconds for which a greeting waits for its node: rounds may be long, and nodes busy
_LONGEST_PAUSE = 3600.0  # seconds until a node that has failed is asked again
_TRIES = 3  # failures after which an app is taken for one that knows no greetings
_A_DAY = 24 * 3600.0


class Greetings:
    """Greetings without an answer yet, the answers, and when to ask nodes again that have failed.

    A greeting lies at the link until its node takes it, so a slow node answers late and a dead one never: neither
    delays the others. A node that fails is asked again after a pause that doubles each time.
    """

    def __init__(self, timeout: float, question: Settings) -> None:
        self._timeout = timeout
        self._question = RecordDict({messages.CONFIG: ConfigRecord(dict(question))})
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
        sent = [Message(self._question, node, messages.HELLO, ttl=_LIFE, group_id=str(t)) for node in due]
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
            if not messages.is_of_link(reply, node) and (messages.knows_no_greeting(reply) or failures >= _TRIES):
                self.speechless.add(node)
            else:
                self.postpone(grid, node, messages.error_in(reply))

    def postpone(self, grid: PollingGrid, node: int, why: str) -> None:
        """Ask a node again, after a pause."""
        self.answers.pop(node, None)
        failures = self._failures[node] = self._failures.get(node, 0) + 1
        pause = min(self._timeout * 2.0 ** min(failures - 1, 30), _LONGEST_PAUSE)
        self._again[node] = grid.clock.now() + pause
        log.warning("node %d cannot join: %s; it is asked again in %.0f s", node, why, pause)


class Presence:
    """Finds the clients that are available at the start of a round.

    A new node is asked who it is, if its name or the size of its data is needed. A mapping as target names the whole
    fleet: its clients have their places from the start, and others are turned away. Apps that are not ours know no
    greetings: their nodes have no name, unless the strategy needs what only a greeted app can give.
    """

    def __init__(
        self, members: Members, target: Target, timeout: float, strategy: Strategy, secure: bool = False
    ) -> None:
        if isinstance(target, str) and target not in ("uniform", "size", "examples"):
            raise ValueError(
                f"target must be 'uniform', 'size', 'examples', a mapping or a function of the name, not {target!r}"
            )
        self.identity = members.identity
        self.listed = members.listed
        self.target: Target = target
        self.sessions = Sessions()
        self._demands = Demands.of(strategy)
        self._side, self._secure = side.to_config(strategy), secure
        question = {messages.SIZE: target == "size", messages.KEEP: self._demands.lengths, **self._side}
        self._greetings = Greetings(timeout, question | ({WANTED: True} if secure else {}))
        self._refused: set[str] = set()
        self._retire_after = members.retire_after
        self._gone_since: dict[str, float] = {}
        self._leaving: dict[str, Goodbye | None] = {}  # with what they have said of their words
        self._left: set[int] = set()  # nodes whose clients have said goodbye

    @property
    def greets(self) -> bool:
        """Whether a new node is asked who it is."""
        return self.identity == "declared" or self._demand is not None

    @property
    def _demand(self) -> str | None:
        """What only an app that answers greetings can give."""
        if self._secure:
            return f"{self._demands.name} has clients send their updates under masks, app = greet(app, secure=Rules())"
        if self._demands.losses:
            return f"{self._demands.name} asks clients for the loss of the model before it selects"
        if self._demands.steered:
            return f"{self._demands.name} steers the local steps of its clients"
        if self._demands.side:
            return f"{self._demands.name} has its memory on the clients"
        return "target='size' asks clients for the size of their data" if self.target == "size" else None

    @property
    def shown_target(self) -> str:
        """The target in a few words."""
        if isinstance(self.target, Mapping):
            return f"{len(self.target)} clients by name"
        return self.target if isinstance(self.target, str) else "a function of the name"

    def enrol(self, driver: Driver) -> None:
        """Give places to the clients that the target names, but for those that have left before a restart."""
        if isinstance(self.target, Mapping):
            fleet = {self._full(name): worth for name, worth in self.target.items()}
            driver.join({name: worth for name, worth in fleet.items() if name not in driver.left})

    def take(self, grid: PollingGrid, driver: Driver, t: int) -> list[str]:
        """Names of the clients of the fleet that are listed in this round, newcomers included.

        Answers to greetings may come while others train. Only if no client is listed, as in the first round, they are
        waited for.
        """
        grid.begin_round(t)
        nodes = {node.node_id: node for node in grid.get_nodes()}
        self._left &= nodes.keys()
        directory = driver.directory
        directory.keep_nodes(nodes)
        self._note_signs_of_life(driver, nodes)
        new = self._strangers(driver, nodes)
        if not self.greets:
            self._join(driver, {directory.recognise(node, self._proof(nodes[node].public_key)): 1 for node in new})
        else:
            self._greetings.keep_nodes(nodes)
            self._greetings.send(grid, new, t)
            if not driver.directory.clients_at(nodes):
                self._greetings.wait(grid)
            self._recognise(grid, driver, {node: info.public_key for node, info in nodes.items()})
        self._retire(driver, nodes, grid.clock.now())
        return driver.directory.clients_at(nodes)

    def attend(self, grid: PollingGrid, driver: Driver) -> None:
        """Greet new nodes and collect their answers, while others train; they join at the start of a round."""
        nodes = list(grid.get_node_ids())
        self.sessions.go_on(driver.directory.clients_at(nodes))
        if self.greets:
            self._greetings.send(grid, self._strangers(driver, nodes), driver.t + 1)

    def retire(self, names: Collection[str]) -> None:
        """Let clients leave for good, before the next round."""
        for name in names:
            self._leaving.setdefault(self._full(name))

    def take_leave(self, driver: Driver, goodbyes: Mapping[str, Goodbye | None]) -> None:
        """The same for clients that have said so themselves; their nodes are left alone from now on."""
        self._leaving |= goodbyes
        self._left |= {node for name in goodbyes if (node := driver.directory.node_of(name)) is not None}

    def _strangers(self, driver: Driver, nodes: Iterable[int]) -> list[int]:
        """The nodes whose clients are not known yet, but for those that have left."""
        return [node for node in nodes if driver.directory.client_at(node) is None and node not in self._left]

    def _retire(self, driver: Driver, nodes: Collection[int], now: float) -> None:
        here = set(driver.directory.clients_at(nodes))
        names = set(driver.directory.names)
        self._gone_since = {name: self._gone_since.get(name, now) for name in names - here}
        unused = {name for name, since in self._gone_since.items() if now - since >= self._grace(name)}
        leaving, said = (unused | self._leaving.keys()) & names, self._leaving
        self._leaving = {}
        if leaving:
            driver.retire(sorted(leaving), {name: word for name, word in said.items() if word is not None})
            log.warning("%d clients have left for good: %s", len(leaving), ", ".join(sorted(leaving))[:200])

    def _grace(self, name: str) -> float:
        """Seconds for which a client may be away."""
        if isinstance(self.target, Mapping):
            return math.inf
        if self._retire_after is not None:
            return self._retire_after
        if not name.startswith("node:"):
            return math.inf
        return 0.0 if self._demands.models else _A_DAY

    def _note_signs_of_life(self, driver: Driver, nodes: Mapping[int, Any]) -> None:
        """A node whose heartbeat is overdue counts as one that does not answer, before Flower takes it off the list."""
        for node, info in nodes.items():
            if (name := driver.directory.client_at(node)) is None:
                continue
            self.sessions.note(name, info)
            if is_overdue(info):
                driver.directory.note_answer(name, answered=False)

    def _recognise(self, grid: PollingGrid, driver: Driver, nodes: Mapping[int, bytes]) -> None:
        """Give names to the nodes that have answered, and to those that cannot; let the new ones join."""
        sizes: dict[str | None, int] = {}
        for node in self._strangers(driver, nodes):
            if node in self._greetings.speechless:
                if self._demand is not None:
                    raise ValueError(
                        f"{self._demand}, but the ClientApp of node {node} answers no greetings. Add one line below "
                        "it: `app = greet(app)`, with `from turnout.flower import greet`"
                    )
                sizes[driver.directory.recognise(node, self._proof(nodes[node]))] = 1
            elif (content := self._greetings.answers.get(node)) is not None:
                size = check_size(messages.metrics_in(content)) if self.target == "size" else 1
                if (problem := self._problem(content)) is not None or isinstance(size, Dropped):
                    self._greetings.postpone(grid, node, problem or getattr(size, "reason", ""))
                    continue
                declared = messages.declared_in(content) if self.identity == "declared" else None
                sizes[driver.directory.recognise(node, self._proof(nodes[node]), declared)] = size
        self._join(driver, sizes)

    def _problem(self, content: RecordDict) -> str | None:
        """Why a node that has answered cannot take part, None if it can."""
        wanted, problem = self._side.get(SIDE), messages.problem_in(content)
        if problem is None and wanted is not None and wanted not in messages.sides_in(content):
            return f"{self._demand}, which its turnout does not know: it needs the client side {wanted!r}"
        return problem

    def _proof(self, public_key: bytes) -> bytes:
        # Nodes without authentication have a key too, a new one at each start: it proves nothing.
        return public_key if self.identity == "key" else b""

    def _join(self, driver: Driver, sizes: Mapping[str | None, int]) -> None:
        """Let newcomers join by name, not in the order of their answers; those without a target are turned away."""
        worths = {}
        for name, size in sorted((name, size) for name, size in sizes.items() if name is not None):
            worth = self._worth(name, size)
            if worth is not None and can_count(worth):
                worths[name] = worth
            elif name not in self._refused:
                self._refused.add(name)
                log.warning("%s is turned away: its target is %s, and must be %s", name, worth, WORTHS)
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
