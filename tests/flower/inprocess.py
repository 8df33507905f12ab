"""A grid in this process: it calls the ClientApp directly; clients may be away, silent, broken, slow or lying."""

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import count

import flwr.app.message.message as flwr_message
from flwr.app import Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from turnout.flower import Files, Members, Waiting
from turnout.flower.settings import Clock

_real_now, _clock = flwr_message.now, {}


def _now():
    """What Flower stamps messages with: the time of the clock of the last grid, if that has one."""
    clock = _clock.get("is")
    return _real_now() if clock is None else datetime.datetime.fromtimestamp(clock.wall(), datetime.UTC)


flwr_message.now = _now
LINK = 1  # the node in whose name the link reports errors
Listed = Callable[[int], list[str]]
Behaviour = Callable[[str, int, Message], str]


def grouped(**options):
    """Options of a `FlowerStrategy`, with each field of its groups of settings in its group."""
    for argument, kind in (("waiting", Waiting), ("members", Members), ("files", Files)):
        own = {one.name: options.pop(one.name) for one in fields(kind) if one.name in options}
        options |= {argument: kind(**own)} if own else {}
    return options


def always(_name, _turn, _message):
    return "answer"


@dataclass
class FakeClock(Clock):
    """Time that passes when somebody sleeps; it ends, for a server waits for its first client for ever."""

    time: float = 0.0
    end: float = 1e6

    def now(self):
        return self.time

    def wall(self):
        return 1e9 + self.time

    def sleep(self, seconds):
        assert seconds >= 0
        self.time += max(seconds, 1e-6)
        if self.time > self.end:
            raise TimeIsUp


class TimeIsUp(Exception):
    """The end of a clock's time."""


@dataclass
class InProcessGrid(Grid):
    """Clients by name, each at a node of its own; "a again" is client a after a restart, at another node.

    `listed` tells who is listed in a turn, counted from 0 by the calls of `get_nodes`; `behave` what a client does with
    a message: answer, silent, raise, lost (it answers, but an error comes instead), unreachable, slow (its reply comes
    after the first look), late (it comes when the next messages are sent), twice, or lie.

    With a clock messages expire: `takes` tells how many seconds the reply of a client takes, and what is fetched after
    the life of the message is an error of the link, as on Flower. That life counts from when the message was made.
    """

    app: object
    listed: Listed
    behave: Behaviour = always
    lie: Callable[[RecordDict], RecordDict] = lambda content: content
    keys: dict[str, bytes] = field(default_factory=dict)
    run_config: dict[str, object] = field(default_factory=dict)
    node_config: Callable[[str], dict] = lambda name: {"client-id": name}
    turn: int = -1
    clock: Clock | None = None
    takes: Callable[[str, int, Message], float] = lambda _name, _turn, _message: 0.0

    def __post_init__(self):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, LINK, 3
        self.nodes, self.contexts, self.ready = {}, {}, {}
        self.slow, self.late, self.timed = {}, {}, {}
        self.numbers, self.fresh = count(), count(100)
        self.seen = []
        _clock["is"] = self.clock

    def node(self, name):
        if name not in self.nodes:
            self.nodes[name] = next(self.fresh)
        return self.nodes[name]

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        return [self.node(name) for name in self.listed(max(self.turn, 0))]

    def get_nodes(self):
        self.turn += 1
        names = self.listed(self.turn)
        return [NodeInfo(node_id=self.node(name), public_key=self.keys.get(name, b"made up")) for name in names]

    def push_messages(self, messages):
        assert isinstance(messages, list)  # a generator makes the real grid fail
        self.ready |= self.late
        self.late.clear()
        numbers = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{next(self.numbers)}"
            numbers.append(message.metadata.message_id)
            self._deliver(message)
        return numbers

    def _deliver(self, message):
        number, place = message.metadata.message_id, message.metadata.dst_node_id
        name = next(found for found, node in self.nodes.items() if node == place)
        manner = self.behave(name, self.turn, message)
        self.seen.append((name, message.metadata.message_type, manner))
        if self.clock is not None:
            now = self.clock.now()
            ready = math.inf if manner == "silent" else now + self.takes(name, self.turn, message)
            self.timed[number] = (message, ready, now + self._life(message))
            if self._life(message) <= 0:
                return
        if manner == "silent":
            return
        if manner == "unreachable":
            reply = Message(Error(5, "Node unavailable"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = LINK
        elif manner == "raise":
            reply = Message(Error(2, "Traceback\nValueError: no data"), reply_to=message)
        else:
            reply = self._call(name, message)
        if manner == "lie":
            reply.content = self.lie(reply.content)
        if manner == "lost":
            reply = Message(Error(2, "ConnectionError: the reply is lost"), reply_to=message)
        shelf = {"slow": self.slow, "late": self.late}.get(manner, self.ready)
        shelf[number] = [reply, reply] if manner == "twice" else [reply]

    def _life(self, message):
        """Seconds that are left of it."""
        return message.metadata.created_at + message.metadata.ttl - self.clock.wall()

    def _call(self, name, message):
        place = message.metadata.dst_node_id
        config = self.node_config(name.removesuffix(" again"))
        context = self.contexts.setdefault(place, Context(7, place, config, RecordDict(), self.run_config))
        try:
            return self.app(message, context)
        except Exception as error:
            return Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)

    def _due(self, number):
        """Whether a reply is there by the clock; one that has expired becomes an error of the link."""
        if number not in self.timed:
            return True
        message, ready, end = self.timed[number]
        if self.clock.now() >= end:
            reply = Message(Error(3, "Message expired"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = LINK
            self.ready[number] = [reply]
            del self.timed[number]
        return self.clock.now() >= min(ready, end)

    def pull_messages(self, message_ids):
        message_ids = [number for number in message_ids if self._due(number)]
        found = [reply for number in message_ids for reply in self.ready.pop(number, [])]
        for number in message_ids:
            if number in self.slow:
                self.ready[number] = self.slow.pop(number)
        return found

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages)) if messages else []
