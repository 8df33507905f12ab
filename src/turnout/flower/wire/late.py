"""Orders of rounds that were closed before their client had answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flwr.app import Message, Metadata

from turnout.flower.fleet.directory import Directory
from turnout.flower.wire.layout import Arrays


@dataclass(frozen=True)
class LateOrder:
    """An order that is still being worked on."""

    client: str
    node: int
    t: int  # round of the order, counted from 1
    start: Arrays  # the model from which its client started
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

    def keep(self, sent: Mapping[str, Metadata], starts: Mapping[str, Arrays], t: int, end: float) -> None:
        """Remember the orders that were not answered before the round was closed."""
        for client, metadata in sent.items():
            self._orders[metadata.message_id] = LateOrder(client, metadata.dst_node_id, t, starts[client], end)

    def take(self, reply: Message) -> LateOrder | None:
        """The order that a reply answers, which is forgotten now; None if it is not one of these."""
        return self._orders.pop(reply.metadata.reply_to_message_id, None)

    @property
    def numbers(self) -> list[str]:
        """The messages of all these orders."""
        return list(self._orders)
