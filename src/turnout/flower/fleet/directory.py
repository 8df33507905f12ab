"""Clients: names that survive restarts, places 0 … N-1 in the fleet, present nodes, and when they were online."""

import datetime
import hashlib
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

log = logging.getLogger("turnout.flower")

_LONGEST = 200  # characters of a declared name
_TRIES = 2  # silent answers in a row until a client is left alone for a while
_LONGEST_REST = 8  # rounds
_PATIENCE = 2  # heartbeat intervals that Flower waits for the next heartbeat before a node is offline
_MISSED = 0.7  # of a heartbeat interval: with less left a node has missed a heartbeat, for they come in time by 0.9
SESSION_COLUMNS = ("client", "start", "end")


def name_by_key(public_key: bytes) -> str:
    """Name of a node that has proven to hold the private key of this public one."""
    return f"key:{hashlib.sha256(public_key).hexdigest()[:32]}"


def name_by_claim(declared: object) -> str | None:
    """Name that a node declares, or None if it is invalid: it must be short, printable and not empty."""
    text = str(declared).strip() if isinstance(declared, str | int) and not isinstance(declared, bool) else ""
    return f"id:{text}" if 0 < len(text) <= _LONGEST and text.isprintable() else None


class Directory:
    """Clients by name and place, and their present nodes.

    Places are given in the order of joining. A client that does not return keeps its place and its history, unless it
    leaves for good: then the next newcomer gets the place. Nodes come and go, and are not part of a checkpoint.
    """

    def __init__(self, by_place: Iterable[str | None] = ()) -> None:
        self._by_place = list(by_place)  # None where nobody is
        self._places = {name: place for place, name in enumerate(self._by_place) if name is not None}
        self._nodes: dict[int, str] = {}
        self._at: dict[str, int] = {}  # the inverse of `_nodes`
        self._silent: dict[str, int] = {}  # how often they were silent in a row
        self._rest: dict[str, int] = {}  # last round in which they are left alone
        self._warned: set[str] = set()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    @property
    def names(self) -> tuple[str, ...]:
        """All clients, by place."""
        return tuple(name for name in self._by_place if name is not None)

    @property
    def by_place(self) -> tuple[str | None, ...]:
        """The client at each place, None where one has left."""
        return tuple(self._by_place)

    def place(self, name: str) -> int:
        if name not in self._places:
            raise KeyError(f"no client {name!r} in the fleet of {len(self)}; let it join first")
        return self._places[name]

    def join(self, names: Iterable[str]) -> list[int]:
        """Places of these clients; new ones get the first that are vacant."""
        joining = list(names)
        vacant = iter([place for place, name in enumerate(self._by_place) if name is None])
        for name in joining:
            if name not in self._places:
                place = self._places[name] = next(vacant, len(self._by_place))
                self._by_place[place : place + 1] = [name]
        return [self._places[name] for name in joining]

    def leave(self, names: Iterable[str]) -> list[int]:
        """Forget clients that have left for good; returns the places that are vacant now."""
        leaving = {name: self.place(name) for name in names}
        for name, place in leaving.items():
            del self._places[name]
            self._by_place[place] = None
            self._nodes.pop(self._at.pop(name, -1), None)
            self.note_answer(name, answered=True)
        return list(leaving.values())

    def client_at(self, node: int) -> str | None:
        """Name of the client at a node, None for a node that was not recognised."""
        return self._nodes.get(node)

    def clients_at(self, nodes: Iterable[int]) -> list[str]:
        """Clients of the fleet that are at these nodes."""
        names = dict.fromkeys(self._nodes.get(node) for node in nodes)
        return [name for name in names if name is not None and name in self]

    def node_of(self, name: str) -> int | None:
        """Node of a client, None if it is away."""
        return self._at.get(name)

    def keep_nodes(self, listed: Collection[int]) -> None:
        """Forget the nodes that are not listed any more."""
        self._nodes = {node: name for node, name in self._nodes.items() if node in listed}
        self._at = {name: node for node, name in self._nodes.items()}

    def recognise(self, node: int, public_key: bytes = b"", declared: object = None) -> str | None:
        """Name of the client at a node: by its key if it has proven one, else as declared, else by the node itself.

        None, with a warning, if the name is invalid, or if another listed node has it and answered when last asked:
        no node can take over a running client's history by declaring its name, but a client that was killed can come
        back while its old node is still listed.
        """
        name = self._name(node, public_key, declared)
        if name is None:
            log.warning(
                "node %d declares the name %.80r: must be 1 to %d printable characters", node, declared, _LONGEST
            )
            return None
        holder = self.node_of(name)
        if holder is not None and holder != node and name not in self._silent:
            log.warning("node %d calls itself %s, but node %d has that name and answers", node, name, holder)
            return None
        self._nodes[node], self._at[name] = name, node
        self.note_answer(name, answered=True)
        return name

    def note_answer(self, name: str, answered: bool, t: int | None = None) -> None:
        """Note whether a client answered when it was last asked, in round t."""
        if answered:
            self._silent.pop(name, None)
            self._rest.pop(name, None)
            return
        times = self._silent[name] = self._silent.get(name, 0) + (t is not None)
        if t is not None and times >= _TRIES:
            self._rest[name] = t + min(2 ** (times - _TRIES), _LONGEST_REST)

    def rests(self, name: str, t: int) -> bool:
        """Whether a client that is listed, but was silent again and again, is left alone in round t."""
        return t <= self._rest.get(name, 0)

    @property
    def silent(self) -> frozenset[str]:
        """Clients that did not answer when they were last asked."""
        return frozenset(self._silent)

    def _name(self, node: int, public_key: bytes, declared: object) -> str | None:
        if public_key:
            return name_by_key(public_key)
        if declared is None:
            self._warn_once(
                "nodes without a key or a declared name count as new clients after each restart; to give them names, "
                "wrap the ClientApp, `app = greet(app)` from turnout.flower, and set client-id or partition-id"
            )
            return f"node:{node}"  # another one after each restart
        self._warn_once("declared names are taken on trust: any node can claim any name; authenticate nodes by key")
        return name_by_claim(declared)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text)


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
