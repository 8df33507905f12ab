"""Updates and metrics from the contents of replies, late ones too; invalid ones are dropped and logged."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, Metadata, RecordDict

from turnout.flower.fleet.directory import Directory
from turnout.flower.server.demands import Demands
from turnout.flower.server.driver import Driver
from turnout.flower.server.turn import Order
from turnout.flower.settings import Limits
from turnout.flower.wire.client_metrics import OWN_BASE, Dropped
from turnout.flower.wire.compact import check_parts, check_second, most_bytes
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.messages import (
    COMPACT,
    LEAVING,
    NUMBERS,
    SECOND,
    array_records_in,
    arrays_in,
    bytes_in,
    metrics_in,
    parts_in,
)
from turnout.flower.wire.replies import (
    Goodbye,
    Reply,
    ReplyRules,
    check_length,
    check_loss,
    check_numbers,
    check_reply,
    reach_in,
)

log = logging.getLogger("turnout.flower")
_ALIKE = 1e-3  # relative difference allowed between the announced and the actual length of an update


@dataclass(frozen=True)
class LateOrder:
    """An order that is still being worked on."""

    client: str
    node: int
    t: int  # round of the order, counted from 1
    start: Arrays  # the model from which its client started
    lr: float  # η of that round
    end: float  # when the message expires


class LateOrders:
    """Late orders by message. A client at work on one gets no other, or it would work on old orders for ever."""

    def __init__(self) -> None:
        self._orders: dict[str, LateOrder] = {}

    def busy(self, directory: Directory, now: float) -> set[str]:
        """Clients that are still at work; orders of nodes that are gone, or that have expired, are forgotten."""
        self._orders = {
            number: order
            for number, order in self._orders.items()
            if directory.node_of(order.client) == order.node and now < order.end
        }
        return {order.client for order in self._orders.values()}

    def keep(self, sent: Mapping[str, Metadata], orders: Mapping[str, Order], t: int, end: float) -> None:
        """Remember the orders that were not answered before the round was closed."""
        for client, metadata in sent.items():
            order = orders[client]
            late = LateOrder(client, metadata.dst_node_id, t, order.start, order.lr, end)
            self._orders[metadata.message_id] = late

    def take(self, reply: Message) -> LateOrder | None:
        """The order that a reply answers, which is forgotten now; None if it is not one of these."""
        return self._orders.pop(reply.metadata.reply_to_message_id, None)

    @property
    def numbers(self) -> list[str]:
        """The messages of all these orders."""
        return list(self._orders)


class Desk:
    """Where the answer to one order is checked, apart from all others; the rows that it is written to are its own."""

    def __init__(self, t: int, layout: Layout, demands: Demands) -> None:
        self.t = t  # steps before the order was sent
        self.layout = layout
        self.demands = demands
        self._rows: dict[str, Arrays] = {}

    def room_for(self, name: str) -> Arrays:
        return self._room(f"update {name}")

    def second_room_for(self, name: str) -> Arrays:
        return self._room(f"second {name}")

    def _room(self, which: str) -> Arrays:
        if which not in self._rows:
            self._rows[which] = {part: rows[0, ...] for part, rows in self.layout.rows(1).items()}
        return self._rows[which]


@dataclass
class Collection:
    """The replies of one round, each checked as it comes and written to its row; none is kept."""

    driver: Driver | Desk
    orders: Mapping[str, Order]
    limits: Limits
    good: dict[str, Reply] = field(default_factory=dict)
    metrics: dict[str, dict] = field(default_factory=dict)  # of all replies with a content, by client
    failed: set[str] = field(default_factory=set)  # clients that were available, but sent an error
    late: set[str] = field(default_factory=set)  # clients that answered for an earlier round
    lengths: dict[str, float] = field(default_factory=dict)  # of updates that clients have kept
    reach: dict[str, float] = field(default_factory=dict)  # of clients that announced such a length
    refused: list[str] = field(default_factory=list)  # clients whose reply was dropped
    forgotten: set[str] = field(default_factory=set)  # clients that have lost their memory of what they sent
    # Clients that leave for good, with what takes their word out of the server's sum; None where there is nothing.
    goodbyes: dict[str, Goodbye | None] = field(default_factory=dict)
    bytes_uploaded: int = 0  # by all replies that arrived, dropped ones included
    size_key: str = "num-examples"  # metric that counts the samples
    warned: set[str] = field(default_factory=set)  # metrics of which it was said before that they are ignored

    @property
    def heard(self) -> set[str]:
        """The clients that gave a sign."""
        return self.failed | self.metrics.keys()

    def add(self, contents: Mapping[str, RecordDict], failed: Iterable[str] = ()) -> None:
        """Add replies to training: updates, or the lengths of updates that clients keep."""
        self.failed.update(failed)
        for name, content in contents.items():
            self.bytes_uploaded += bytes_in(content)
            self.metrics[name] = metrics_in(content)
            if self._leaves(name, content):
                continue
            if array_records_in(content) or not self.driver.demands.lengths:
                self._keep(name, self._check(name, content, self.metrics[name]))
            else:
                self._take_length(name, self.metrics[name])

    def add_late(self, order: LateOrder, content: RecordDict) -> None:
        """Add the update of an earlier round, as that of this one: strategies with a memory gain from it."""
        self.bytes_uploaded += bytes_in(content)
        self.late.add(order.client)
        self.metrics[order.client] = metrics_in(content)
        if self._leaves(order.client, content):
            return
        reply = self._check(order.client, content, self.metrics[order.client], order)
        if isinstance(reply, Reply):
            reply = replace(reply, age=self.driver.t + 1 - order.t, lr=order.lr)
        self._keep(order.client, reply)

    def add_uploads(self, contents: Mapping[str, RecordDict]) -> None:
        """Add updates whose lengths were announced before."""
        for name, content in contents.items():
            self.bytes_uploaded += bytes_in(content)
            reply, announced = self._check(name, content, self.metrics[name]), self.lengths[name]
            if isinstance(reply, Reply) and abs(reply.norm - announced) > _ALIKE * max(reply.norm, announced):
                reply = Dropped(f"its update has length {reply.norm:.4g}, but it announced {announced:.4g}")
            self._keep(name, reply)

    @property
    def dropped(self) -> int:
        return len(self.refused)

    def norms(self) -> dict[str, float]:
        """Lengths of all updates, received or still kept by clients."""
        return self.lengths | {name: reply.norm for name, reply in self.good.items()}

    def _check(
        self, name: str, content: RecordDict, metrics: dict, late: LateOrder | None = None, says_goodbye: bool = False
    ) -> Reply | Dropped:
        layout, records = self.driver.layout, array_records_in(content)
        is_compact, wants_second = COMPACT in records, self.driver.demands.second and not says_goodbye
        if wants_second and isinstance(second := self._second(name, records), Dropped):
            return second
        numbers = self._numbers(records) if self.driver.demands.numbers else None
        if isinstance(numbers, Dropped):
            return numbers
        apart = {SECOND: wants_second, NUMBERS: bool(self.driver.demands.numbers)}
        others = {key: record for key, record in records.items() if not apart.get(key)}
        if is_compact and len(others) != 1:
            return Dropped(f"it holds {len(others)} array records, not one")
        arrays = parts_in(records[COMPACT], most_bytes(layout)) if is_compact else arrays_in(others, layout)
        if isinstance(arrays, Dropped):
            return arrays
        metrics = {**metrics, "num-examples": metrics.get(self.size_key)}
        t = self.driver.t + 1 if late is None else late.t
        rules = ReplyRules(layout, t, self.limits, row=self.driver.room_for(name))
        if self.driver.demands.memory and (reason := self._on_another_base(name, metrics)):
            return Dropped(reason)
        if is_compact:
            reply = check_parts(arrays, metrics, rules)
            if isinstance(reply, Reply) and wants_second:
                reply = replace(reply, second=self.driver.second_room_for(name))
            if isinstance(reply, Reply):
                reply = replace(reply, numbers=numbers)
            says_nothing = self.driver.demands.side and metrics.get("reach") == 0
            return _without_work(reply) if isinstance(reply, Reply) and says_nothing else reply
        start = self.orders[name].start if late is None else late.start
        return check_reply(arrays, metrics, start, rules)

    def _second(self, name: str, records: Mapping[str, ArrayRecord]) -> Arrays | Dropped:
        """The second vector of an answer, written to its row; an answer counts as a whole or not at all."""
        if SECOND not in records:
            return Dropped(
                f"it holds no {SECOND!r}, the second vector that {self.driver.demands.name} has clients send"
            )
        layout = self.driver.layout
        parts = parts_in(records[SECOND], most_bytes(layout))
        if isinstance(parts, Dropped):
            return Dropped(f"its second vector is of no use: {parts.reason}")
        return check_second(parts, layout, self.limits.second, self.driver.second_room_for(name))

    def _numbers(self, records: Mapping[str, ArrayRecord]) -> np.ndarray | Dropped:
        """The numbers beside the vector of an answer."""
        count = self.driver.demands.numbers
        parts = parts_in(records[NUMBERS], {"numbers": 4 * count}) if NUMBERS in records else {}
        return parts if isinstance(parts, Dropped) else check_numbers(parts, count, self.limits)

    def _on_another_base(self, name: str, metrics: Mapping[str, Any]) -> str | None:
        """What is wrong if an update is not the difference to the one that arrived last."""
        base, wanted = metrics.get(OWN_BASE), self.orders[name].acknowledged
        if base == wanted:
            return None
        if wanted and base == 0:
            self.forgotten.add(name)
            return f"the client has lost its memory of round {wanted}"
        return f"it is a difference to the update of round {base!r:.80}, not to that of round {wanted}"

    def _leaves(self, name: str, content: RecordDict) -> bool:
        """Whether a client leaves for good; if it keeps its own word, what it says must fit to that."""
        metrics = self.metrics[name]
        if not metrics.get(LEAVING):
            return False
        self.goodbyes[name] = None
        if self.driver.demands.memory:
            said = self._check(name, content, metrics, says_goodbye=True)
            if isinstance(said, Reply):
                word = {part: rows.copy() for part, rows in said.update.items()}
                self.goodbyes[name] = Goodbye(word, said.numbers)
            else:
                log.warning("%s leaves, but what it says of its word is dropped: %s", name, said.reason)
        return True

    def _take_length(self, name: str, metrics: dict) -> None:
        norm = check_length(metrics, t=self.driver.t + 1, limits=self.limits)
        if isinstance(norm, Dropped):
            self._keep(name, norm)
        else:
            self.lengths[name] = norm
            self.reach[name] = reach_in(metrics, self.limits, otherwise=1.0)

    def _keep(self, name: str, reply: Reply | Dropped) -> None:
        if isinstance(reply, Reply):
            self.good[name] = reply
            for reason in reply.ignored:
                if (metric := reason.partition(" ")[0]) not in self.warned:
                    self.warned.add(metric)
                    log.warning("%s: %s. It is ignored, here and later; the update counts.", name, reason)
            return
        self.refused.append(name)
        log.warning("round %d: the reply of %s is dropped: %s", self.driver.t + 1, name, reply.reason)


def _without_work(reply: Reply) -> Reply:
    """An answer of no work: a client that keeps its own word has said nothing, and the server must see it alike."""
    return replace(reply, reach=0.0, ignored=tuple(why for why in reply.ignored if not why.startswith("'reach'")))


def losses_in(contents: Mapping[str, RecordDict], t: int, limits: Limits) -> dict[str, float]:
    """Losses in the valid answers to a probe, by client."""
    losses = {}
    for name, content in contents.items():
        loss = check_loss(metrics_in(content), t=t, limits=limits)
        if isinstance(loss, Dropped):
            log.warning("round %d: the loss of %s is dropped: %s", t, name, loss.reason)
        else:
            losses[name] = loss
    return losses
