"""The server's part of a secure round: four exchanges around the training, and replies that are all the mean."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict

from turnout.flower.secure import packing, vectors, words
from turnout.flower.secure.party import Keys
from turnout.flower.secure.rules import LostError
from turnout.flower.secure.settings import SecureSums
from turnout.flower.secure.summer import Summer
from turnout.flower.server.driver import Driver
from turnout.flower.wire import messages as wire
from turnout.flower.wire.client_metrics import OWN_BASE, OWN_ROUND, Dropped
from turnout.flower.wire.compact import VALUES
from turnout.flower.wire.exchange import Exchange
from turnout.flower.wire.replies import Goodbye
from turnout.flower.wire.retries import PollingGrid
from turnout.uploads.fixed_point import FixedPoint

log = logging.getLogger("turnout.flower")
shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning


class SecureRounds:
    """Plays the exchanges of one round after another.

    A client whose upload is in a sum that was unmasked is handed the mean as its reply, so that strategy, books and
    records are those of a plain run. In a round that is lost nobody arrives.
    """

    def __init__(self, settings: SecureSums, run: str, size_key: str | None) -> None:
        self.settings, self._run = settings, run
        self._size_key = size_key  # metric by which clients count, if they tell
        self._came = np.zeros(2)  # the weight of all that came so far, and how many
        self.lost: list[int] = []  # rounds whose sum could not be unmasked

    def play(
        self, driver: Driver, orders: Iterable[Message], exchange: Exchange, grid: PollingGrid, timeout: float | None
    ) -> list[Message]:
        """Replies to the orders of a round: the mean for every client in the sum, errors for all others that worked."""
        self._driver, self._grid, self._timeout = driver, grid, timeout
        sent = {message.metadata.dst_node_id: message for message in orders}
        names = {node: name for name in exchange.orders if (node := driver.directory.node_of(name)) in sent}
        exchange.mailbox.forget()
        summer = Summer(
            words.tag_of(self._run, driver.t + 1),
            vectors.size_of(self._entries, len(self._numbers) + 2 * len(self.settings.metrics)),
            self.settings.neighbours,
            self.settings.dropouts,
            self.settings.least,
        )
        fresh: dict[int, Message] = {}
        try:
            mail = self._before(summer, names, exchange)
            weights = {node: exchange.orders[name].weight for node, name in names.items()}
            usual = max(weights.values(), default=0.0) or 1.0  # all of order one, for fixed points
            letters = {names[node]: self._with_sum(sent[node], mail[node], weights[node] / usual) for node in mail}
            fresh = exchange.mailbox.again(letters)
            self._train(summer, fresh, exchange)
            told = self._unmask(summer, names)
            total = summer.result(told)
            if not (staying := summer.arrived - self._leaving):
                raise LostError("all clients in it leave")
        except LostError as error:
            self.lost.append(driver.t + 1)
            log.warning("round %d: the sum is lost: %s", driver.t + 1, error)
            return [_failure(message, str(error)) for node, message in fresh.items() if node in summer.arrived]
        shown.info("\t├── The sum of %d updates was unmasked", len(summer.arrived))
        if self._size_key is not None:
            self._weigh(total, len(staying))
        for node in summer.arrived & self._leaving:  # the sum has its goodbye, so that nothing is left to take back
            exchange.note_goodbye(driver, names[node], self._nothing())
        orders_of = {node: exchange.orders[names[node]] for node in staying}
        return [self._mean(fresh[node], total, len(staying), order.acknowledged) for node, order in orders_of.items()]

    def _nothing(self) -> Goodbye:
        layout = self._driver.layout
        zeros = {name: np.zeros(layout.shapes[name], np.float32) for name in layout.trained}
        return Goodbye(zeros, np.zeros(len(self._numbers), np.float32) if self._driver.demands.numbers else None)

    @property
    def _numbers(self) -> tuple[str, ...]:
        """Names of what stands beside the update: by the client side of the strategy, or the weight alone."""
        side = self._driver.strategy.client_side
        return ("weight",) if side is None else side.numbers

    @property
    def _entries(self) -> int:
        layout = self._driver.layout
        return sum(int(np.prod(layout.shapes[name], dtype=np.int64)) for name in layout.trained)

    def _before(self, summer: Summer, names: Mapping[int, str], exchange: Exchange) -> dict[int, dict[int, bytes]]:
        """The boxes for every client that is to train; a LostError if too few are left."""
        keeps = self._driver.demands.memory  # else there is nothing that a client could have lost
        base = {
            node: {wire.ACKNOWLEDGED: exchange.orders[name].acknowledged if keeps else 0}
            for node, name in names.items()
        }
        answers = self._ask(words.KEYS, base, names)
        for node, said in answers.items():
            exchange.note_there(self._driver, names[node])
            if said.get(words.FORGOTTEN):
                exchange.note_forgotten(self._driver, names[node])
            elif said.get(words.LEAVING) and words.TOLD not in said:
                exchange.note_goodbye(self._driver, names[node], None)
        self._leaving = {node for node, said in answers.items() if said.get(words.LEAVING)}
        told = {node: said[words.TOLD] for node, said in answers.items() if isinstance(said.get(words.TOLD), bytes)}
        length = sum(words.KEY_LENGTHS)
        keys = {node: Keys(*packing.cut(row, words.KEY_LENGTHS)) for node, row in told.items() if len(row) == length}
        if len(keys) < self.settings.least:
            raise LostError(f"{len(keys)} clients have sent keys, {self.settings.least} are needed")
        if len(keys) > self.settings.room:
            raise LostError(f"{len(keys)} clients take part, but a sum has room for {self.settings.room}: raise room")
        groups = summer.take_keys(keys)
        asked = {
            node: {
                words.GROUP: packing.rows({other: b"".join(own) for other, own in group.items()}),
                words.THRESHOLD: summer.threshold,
            }
            for node, group in groups.items()
        }
        boxes = self._ask(words.SHARES, asked, names)
        return summer.take_shares({node: _rows(said.get(words.BOXES), words.BOX_BYTES) for node, said in boxes.items()})

    def _with_sum(self, order: Message, boxes: Mapping[int, bytes], weight: float) -> Message:
        """The order as it was written, with what its client needs for the sum."""
        upload = FixedPoint.with_room(self.settings.room, self.settings.quantum)
        about = {
            **self._about(),
            words.BOXES: packing.rows(boxes),
            words.ENTRIES: self._entries,
            words.QUANTUM: upload.quantum,
            words.MOST: upload.most,
            words.METRICS: "\n".join(self.settings.metrics),
        }
        if not self._driver.demands.numbers:
            about[wire.WEIGHT] = weight if self._size_key is None else self._size_key
        order.content[words.SUM] = ConfigRecord(about)
        return order

    def _train(self, summer: Summer, fresh: Mapping[int, Message], exchange: Exchange) -> None:
        """Send the orders, whose life begins now, and add up what comes back."""
        nodes: dict[str, int] = {}

        def take(reply: Message) -> None:
            if not nodes:  # the number of a message is known once it is sent
                nodes.update({message.metadata.message_id: node for node, message in fresh.items()})
            node = nodes.get(reply.metadata.reply_to_message_id)
            if node is None:
                return
            vector = _vector(reply, summer.size) if reply.has_content() else Dropped(wire.error_in(reply))
            if isinstance(vector, Dropped):
                log.warning("an upload to the sum does not count: %s", vector.reason)
            else:
                summer.add(node, vector)

        if fresh:
            messages = list(fresh.values())
            self._grid.send_and_receive(messages, timeout=self._timeout, closing=exchange.closing, on_reply=take)

    def _unmask(self, summer: Summer, names: Mapping[int, str]) -> dict[int, dict[int, bytes]]:
        asked = {
            node: {words.ARRIVED: packing.names(arrived), words.GONE: packing.names(gone)}
            for node, (arrived, gone) in summer.to_unmask().items()
        }
        told = self._ask(words.UNMASK, asked, names)
        return {node: _rows(said.get(words.TOLD), 17) for node, said in told.items()}

    def _ask(
        self, kind: str, asked: Mapping[int, Mapping[str, Any]], names: Mapping[int, str]
    ) -> dict[int, Mapping[str, Any]]:
        """What nodes answer to a question about the sum, by node."""
        if not asked:
            return {}
        t, sent = self._driver.t + 1, {}
        for node, values in asked.items():
            content = RecordDict({words.SUM: ConfigRecord({**self._about(), **values})})
            sent[node] = Message(content, node, kind, ttl=self._timeout, group_id=str(t))
        replies = self._grid.send_and_receive(list(sent.values()), timeout=self._timeout)
        nodes = {message.metadata.message_id: node for node, message in sent.items()}
        found: dict[int, Mapping[str, Any]] = {}
        for reply in replies:
            node = nodes.get(reply.metadata.reply_to_message_id)
            if node is not None and reply.has_content():
                found[node] = dict(reply.content.config_records.get(words.SUM, {}))
            elif node is not None:
                log.warning("%s does not take part in the sum: %s", names[node], wire.error_in(reply))
        return found

    def _weigh(self, total: np.ndarray, count: int) -> None:
        """Let every client count as the mean of those that came: what one counts for is not known."""
        _, told = vectors.from_sum(total, self._entries, self.settings.quantum)
        self._came += np.array([told[len(self._numbers) - 1], count])  # the last number is the weight as it is now
        mean = float(self._came[0] / self._came[1])
        if mean > 0:
            self._driver.weigh(dict.fromkeys(self._driver.directory.names, mean))

    def _about(self) -> dict[str, Any]:
        return {words.RUN: self._run, words.ROUND: self._driver.t + 1}

    def _mean(self, order: Message, total: np.ndarray, count: int, acknowledged: int) -> Message:
        """The reply that stands for one client of the sum."""
        update, told = vectors.from_sum(total, self._entries, self.settings.quantum)
        numbers, sums = told[: len(self._numbers)], told[len(self._numbers) :].reshape(-1, 2)
        by = count if self._driver.demands.numbers else numbers[0]
        metrics = {
            name: float(weighted / weight)
            for name, (weighted, weight) in zip(self.settings.metrics, sums, strict=True)
            if weight > 0
        }
        own = MetricRecord({**metrics, OWN_ROUND: self._driver.t + 1, OWN_BASE: acknowledged})
        mean = (update / by if by else 0.0 * update).astype(np.float32)
        content = RecordDict({wire.COMPACT: wire.to_record({VALUES: mean}), wire.METRICS: own})
        if self._driver.demands.numbers:
            content[wire.NUMBERS] = wire.to_record({"numbers": (numbers / count).astype(np.float32)})
        return Message(content, reply_to=order)


def _failure(order: Message, reason: str) -> Message:
    return Message(Error(2, f"the sum was lost: {reason}"), reply_to=order)


def _rows(content: object, length: int) -> dict[int, bytes]:
    """Rows by name, none of what is not in that form."""
    try:
        return packing.to_rows(content, length) if isinstance(content, bytes) else {}
    except ValueError:
        return {}


def _vector(reply: Message, size: int) -> np.ndarray | Dropped:
    record = wire.array_records_in(reply.content).get(words.MASKED)
    if record is None:
        return Dropped("it holds no upload under masks")
    parts = wire.parts_in(record, {"sum": 4 * size})
    return parts if isinstance(parts, Dropped) else parts.get("sum", Dropped("it holds no sum"))
