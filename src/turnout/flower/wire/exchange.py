"""The messages of a round: what is sent to clients in each phase, and what is made of the replies."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, Metadata, RecordDict

from turnout.flower.fleet.directory import Directory
from turnout.flower.server.driver import Driver
from turnout.flower.server.turn import Order
from turnout.flower.settings import Limits
from turnout.flower.wire import messages, side
from turnout.flower.wire.collecting import Collection, LateOrders, losses_in
from turnout.flower.wire.messages import PROBE, UPLOAD, to_record
from turnout.flower.wire.replies import Goodbye
from turnout.flower.wire.retries import Closing, PollingGrid

log = logging.getLogger("turnout.flower")

Settings = Mapping[str, float | int | bool | str]
Life = float | Mapping[str, float] | None  # seconds
Letter = tuple[str, ArrayRecord | None, Settings]  # client, model, and further keys of the config
shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning


def train_letters(
    orders: Iterable[Order], starts_shared: bool, for_all: Settings, weighed: bool = False
) -> Iterator[Letter]:
    """One letter per order to train; a start that all clients share is packed once."""
    start = None
    for order in orders:
        if start is None or not starts_shared:
            start = messages.to_record(order.start)
        own = {"lr": order.rate, "step-scale": order.scale, "seed": order.seed}
        own |= {messages.UPLOAD_SEED: order.upload_seed, messages.ACKNOWLEDGED: order.acknowledged}
        own |= {messages.WEIGHT: order.importance} if weighed else {}
        yield order.client, start, {**own, **for_all}


class Mailbox:
    """Writes the messages of one phase, and sorts the replies."""

    def __init__(self, arrays_key: str = messages.ARRAYS, config_key: str = messages.CONFIG) -> None:
        self._keys = (arrays_key, config_key)
        self._sent: dict[str, Metadata] = {}  # not the messages, which would keep a thousand models in memory
        self._open: dict[str, str] | None = None  # clients by message without a reply, once there are replies

    def write(
        self,
        directory: Directory,
        kind: str,
        letters: Iterable[Letter],
        config: ConfigRecord,
        t: int,
        ttl: Life,
        beside: Mapping[str, ArrayRecord] | None = None,
    ) -> list[Message]:
        """One message per client; a list, since a grid may iterate over it more than once.

        `beside` are further records, the same for all. `ttl` is the life of the messages, one for all or by client.
        """
        written, self._sent, self._open = [], {}, None
        arrays_key, config_key = self._keys
        for name, arrays, settings in letters:
            node = directory.node_of(name)
            if node is not None:
                content = RecordDict({config_key: ConfigRecord({**config, **settings, messages.ROUND: t})})
                if arrays is not None:
                    content[arrays_key] = arrays
                content.update(beside or {})
                life = ttl[name] if isinstance(ttl, Mapping) else ttl
                message = Message(content, node, kind, ttl=life, group_id=str(t))
                written.append(message)
                self._sent[name] = message.metadata  # has its number once it is sent
        return written

    def forget(self) -> None:
        """Forget the messages that were written: they are not sent as they are."""
        self._sent, self._open = {}, None

    def again(self, messages: Mapping[str, Message]) -> dict[int, Message]:
        """The same messages by node, written now: the life of a message counts from then."""
        written: dict[int, Message] = {}
        for name, before in messages.items():
            told = before.metadata
            message = Message(before.content, told.dst_node_id, told.message_type, ttl=told.ttl, group_id=told.group_id)
            written[told.dst_node_id], self._sent[name] = message, message.metadata
        return written

    def sort_out(self, replies: Iterable[Message]) -> tuple[dict[str, RecordDict], set[str]]:
        """Contents by client, and the clients that were available but failed; the first reply of each counts.

        A reply belongs to the message that it answers: the link reports errors under a node number of its own. Replies
        of one phase may come in several calls.
        """
        contents: dict[str, RecordDict] = {}
        failed: set[str] = set()
        for reply in replies:
            name = self._still_open().pop(reply.metadata.reply_to_message_id, None)
            if name is None:
                log.warning("a reply of node %s answers no message of this round", reply.metadata.src_node_id)
            elif reply.has_content():
                contents[name] = reply.content
            else:
                log.warning("%s failed with %s", name, messages.error_in(reply))
                failed |= set() if messages.is_of_link(reply, self._sent[name].dst_node_id) else {name}
        return contents, failed

    @property
    def unanswered(self) -> dict[str, Metadata]:
        """Messages of this phase without a reply, by client."""
        return {name: self._sent[name] for name in self._still_open().values()}

    def _still_open(self) -> dict[str, str]:
        if self._open is None:
            self._open = {sent.message_id: name for name, sent in self._sent.items()}
        return self._open


def write_orders(
    mailbox: Mailbox, driver: Driver, orders: Sequence[Order], for_all: Settings, config: ConfigRecord, ttl: Life
) -> list[Message]:
    """Messages with these orders, which are of one moment."""
    shared = orders[0].shared if orders else None
    number, arrays = side.shared_number(shared), side.shared_arrays(shared)
    settings = for_all if number is None else {messages.SHARED: number, **for_all}
    beside = None if arrays is None else {messages.SHARED: to_record(arrays)}
    letters = train_letters(orders, driver.demands.shared_start, settings, driver.demands.numbers > 0)
    return mailbox.write(driver.directory, MessageType.TRAIN, letters, config, driver.t + 1, ttl, beside)


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
        return write_orders(self.mailbox, driver, fresh, for_all, config, self.timeout)

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

    def note_there(self, driver: Driver, name: str) -> None:
        """A client has answered a question before its order: if no update follows, its upload has failed."""
        self._open_collection(driver).failed.add(name)

    def note_forgotten(self, driver: Driver, name: str) -> None:
        """A client takes no part, since what it sent before is lost to it."""
        self._open_collection(driver).forgotten.add(name)

    def note_goodbye(self, driver: Driver, name: str, said: Goodbye | None) -> None:
        """A client leaves for good, and has said this of its word."""
        self._open_collection(driver).goodbyes[name] = said

    def finish(self, driver: Driver, still_open: set[str], busy: set[str], now: float) -> Collection:
        """The replies of the round, of which no more are waited for.

        Clients whose messages are still open are at work: their orders are late from now on, until they expire, and
        they are `busy`. Of all others it is noted whether they have answered.
        """
        collection, unanswered = self._open_collection(driver), self.mailbox.unanswered
        at_work = {name: sent for name, sent in unanswered.items() if sent.message_id in still_open}
        self.late.keep(at_work, self.orders, driver.t + 1, now + (self.timeout or 0.0))
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
