"""The phases of a round: what is sent to clients in each, and what is made of the replies."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from flwr.app import ConfigRecord, Message, MessageType

from turnout.flower.server.driver import Driver
from turnout.flower.server.turn import Order
from turnout.flower.settings import Limits
from turnout.flower.wire.collecting import Collection, losses_in
from turnout.flower.wire.late import LateOrders
from turnout.flower.wire.mailbox import Mailbox, Settings, train_letters
from turnout.flower.wire.messages import PROBE, UPLOAD, to_record
from turnout.flower.wire.retries import Closing, PollingGrid

shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning


class Exchange:
    """Sends the messages of one training, and sorts the replies of the open round."""

    def __init__(self, mailbox: Mailbox, closing: Closing, limits: Limits, size_key: str) -> None:
        self.mailbox = mailbox
        self.closing = closing
        self.timeout: float | None = None  # seconds after which messages expire, for training and for evaluation
        self.late = LateOrders()
        self.orders: dict[str, Order] = {}  # of the open round
        self._limits = limits
        self._size_key = size_key
        self._config = ConfigRecord()
        self._collection: Collection | None = None  # replies of the open round
        self._warned: set[str] = set()  # metrics of clients that are ignored

    def write_orders(
        self, driver: Driver, orders: Mapping[str, Order], busy: Iterable[str], for_all: Settings, config: ConfigRecord
    ) -> list[Message]:
        """Messages with the orders of a round, except to clients that are still at work on an earlier one."""
        self.orders, self._config, self._collection = dict(orders), config, None
        fresh = [order for order in orders.values() if order.client not in busy]
        letters = train_letters(fresh, driver.demands.shared_start, for_all)
        return self.mailbox.write(driver.directory, MessageType.TRAIN, letters, config, driver.t + 1, self.timeout)

    def probe(
        self, driver: Driver, asking: list[str], config: ConfigRecord, grid: PollingGrid, timeout: float
    ) -> dict[str, float]:
        """The losses of the clients that answer; the others count as not available."""
        model, t = to_record(driver.arrays()), driver.t + 1
        letters = [(name, model, {"seed": seed}) for name, seed in driver.probe_seeds(asking).items()]
        sent = self.mailbox.write(driver.directory, PROBE, letters, config, t, timeout)
        replies = grid.send_and_receive(sent, timeout=timeout, closing=self.closing) if sent else []
        contents, failed = self.mailbox.sort_out(replies)
        for name in asking:  # or a client that was killed could not come back while its old node is listed
            driver.directory.note_answer(name, name in contents or name in failed, t)
        if asking and failed >= set(asking) and t == 1:
            raise ValueError(
                f"{driver.demands.name} needs the loss of the model on every client, but all {len(failed)} "
                "clients fail to tell it; the log says why. Give them a loss: `app = greet(app, loss=...)`"
            )
        return losses_in(contents, t, self._limits)

    def take(self, driver: Driver, reply: Message) -> None:
        """Check a reply to training and write its update to its row; the reply is not needed any more."""
        collection, order = self._open_collection(driver), self.late.take(reply)
        if order is None:
            collection.add(*self.mailbox.sort_out([reply]))
        elif driver.demands.takes_late and reply.has_content() and order.client in self.orders:
            collection.add_late(order, reply.content)
        else:
            driver.directory.note_answer(order.client, answered=True)
            t = driver.t + 1
            shown.info("\t\t%s answers in round %d for round %d: too late", order.client, t, order.t)

    def finish(self, driver: Driver, still_open: set[str], busy: set[str], now: float) -> Collection:
        """The replies of the round, of which no more are waited for.

        Clients whose messages are still open are at work: their orders are late from now on, until they expire, and
        they are `busy`. Of all others it is noted whether they have answered.
        """
        collection, unanswered = self._open_collection(driver), self.mailbox.unanswered
        at_work = {name: sent for name, sent in unanswered.items() if sent.message_id in still_open}
        starts = {name: self.orders[name].start for name in at_work}
        self.late.keep(at_work, starts, driver.t + 1, now + (self.timeout or 0.0))
        busy |= set(at_work)
        for name in self.orders:
            if name in collection.heard or name not in busy:
                driver.directory.note_answer(name, name in collection.heard, driver.t + 1)
        self.orders, self._collection = {}, None
        return collection

    def fetch_uploads(
        self, driver: Driver, collection: Collection, admitted: Iterable[str], grid: PollingGrid | None
    ) -> None:
        """Ask admitted clients for the updates that they have kept; the others never send theirs."""
        letters = [(name, None, {}) for name in admitted if name in collection.lengths]
        if grid is None or not letters:
            return
        sent = self.mailbox.write(driver.directory, UPLOAD, letters, self._config, driver.t + 1, self.timeout)

        def take(reply: Message) -> None:
            collection.add_uploads(self.mailbox.sort_out([reply])[0])

        if sent:
            grid.send_and_receive(sent, timeout=self.timeout, closing=self.closing, on_reply=take)

    def _open_collection(self, driver: Driver) -> Collection:
        """The replies of the open round so far."""
        if self._collection is None:
            keys = {"warned": self._warned, "size_key": self._size_key}
            self._collection = Collection(driver, self.orders, self._limits, **keys)
        return self._collection
