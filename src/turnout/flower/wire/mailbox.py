"""Messages to clients, and the client of each reply."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from flwr.app import ArrayRecord, ConfigRecord, Message, Metadata, RecordDict

from turnout.flower.fleet.directory import Directory
from turnout.flower.server.turn import Order
from turnout.flower.wire import messages

log = logging.getLogger("turnout.flower")

Settings = Mapping[str, float | int | bool | str]
Letter = tuple[str, ArrayRecord | None, Settings]  # client, model, and further keys of the config


def train_letters(orders: Iterable[Order], starts_shared: bool, for_all: Settings) -> Iterator[Letter]:
    """One letter per order to train; a start that all clients share is packed once."""
    shared = None
    for order in orders:
        if shared is None or not starts_shared:
            shared = messages.to_record(order.start)
        own = {"lr": order.rate, "step-scale": order.scale, "seed": order.seed}
        own |= {messages.UPLOAD_SEED: order.upload_seed, messages.ACKNOWLEDGED: order.acknowledged}
        yield order.client, shared, {**own, **for_all}


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
        ttl: float | None,
    ) -> list[Message]:
        """One message per client; a list, since a grid may iterate over it more than once."""
        written, self._sent, self._open = [], {}, None
        arrays_key, config_key = self._keys
        for name, arrays, settings in letters:
            node = directory.node_of(name)
            if node is not None:
                content = RecordDict({config_key: ConfigRecord({**config, **settings, messages.ROUND: t})})
                if arrays is not None:
                    content[arrays_key] = arrays
                message = Message(content, node, kind, ttl=ttl, group_id=str(t))
                written.append(message)
                self._sent[name] = message.metadata  # has its number once it is sent
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
