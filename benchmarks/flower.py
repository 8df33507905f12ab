"""What the Flower adapter itself costs: a fleet of clients that answer at once, on a grid in this process.

    python benchmarks/flower.py            # 1,000 clients, a model of 1 MB; needs turnout[flower]

Each round every client is asked, "trains" by adding a constant, and answers. What the grid and the clients take, with
the packing of their replies, is timed apart: the adapter's own cost is the rest of the round. It must stay below 5 ms a
client and round. Told are medians over the rounds, of time on the clock, and of processor time on all cores, which
other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from turnout.flower import FlowerStrategy, client_app
from turnout.flower.wire.messages import to_record
from turnout.strategies import MIFA, CAFed, FedAU, FedAvg, FedAWE, FedLaAvg, FedVARP, OptimalSampling, Strategy

LIMIT = 5.0  # ms per client and round


class Cost(NamedTuple):
    """Seconds of processor time, and on the clock."""

    processor: float
    clock: float

    @classmethod
    def now(cls) -> Cost:
        return cls(time.process_time(), time.perf_counter())

    def since(self, before: Cost) -> Cost:
        return Cost(self.processor - before.processor, self.clock - before.clock)


@dataclass
class Crowd(Grid):
    """Nodes that are always there and answer each message when it is sent."""

    app: Any
    count: int
    replies: dict[str, Message] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)
    sent: int = 0
    spent: Cost = field(default_factory=lambda: Cost(0.0, 0.0))

    def __post_init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: Any = None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        return list(range(2, 2 + self.count))

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(node_id=node) for node in self.get_node_ids()]

    def push_messages(self, messages: Any) -> list[str]:
        numbers, begin = [], Cost.now()
        for message in messages:
            self.sent += 1
            message.metadata.__dict__["_message_id"] = f"m{self.sent}"
            node = message.metadata.dst_node_id
            context = self.contexts.setdefault(node, Context(1, node, {"client-id": str(node)}, RecordDict(), {}))
            self.replies[f"m{self.sent}"] = self.app(message, context)
            numbers.append(f"m{self.sent}")
        took = Cost.now().since(begin)
        self.spent = Cost(self.spent.processor + took.processor, self.spent.clock + took.clock)
        return numbers

    def pull_messages(self, message_ids: Any) -> list[Message]:
        return [self.replies.pop(number) for number in message_ids if number in self.replies]

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


def train(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> Any:
    return {name: array + np.float32(0.001) for name, array in arrays.items()}, {"loss": 1.0, "reach": 1}


def loss(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> float:
    return 1.0


def measure(strategy: Strategy, clients: int, megabytes: float, rounds: int) -> bool:
    """Play some rounds and print a line; whether the adapter stayed below its limit."""
    size = int(megabytes * 2**20 / 4)
    model = to_record({"w": np.zeros((size // 64, 64), np.float32), "b": np.zeros(64, np.float32)})
    grid, config = Crowd(client_app(train=train, loss=loss), clients), ConfigRecord({"lr": 0.1})
    flower, own, bare = FlowerStrategy(strategy), [], []
    for t in range(1, rounds + 2):  # the first compiles, and greets everybody
        begin, before = Cost.now(), grid.spent
        replies = grid.send_and_receive(flower.configure_train(t, model, config, grid))
        flower.aggregate_train(t, replies)
        whole, theirs = Cost.now().since(begin), grid.spent.since(before)
        assert len(flower.records[-1].asked) == clients
        own.append(whole.since(theirs))
        bare.append(theirs)
    processor, clock, grid_took = (
        1000 / clients * statistics.median(costs)
        for costs in ([c.processor for c in own[1:]], [c.clock for c in own[1:]], [c.clock for c in bare[1:]])
    )
    print(
        f"{type(strategy).__name__:16} {clock:5.2f} ms per client and round ({clock / LIMIT:4.0%} of the limit); "
        f"processors {processor:5.2f}; grid and clients alone {grid_took:5.2f}",
        flush=True,
    )
    return clock < LIMIT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="one strategy, by its class")
    chosen = parser.parse_args()
    print(f"{chosen.clients} clients, {chosen.megabytes:g} MB, limit {LIMIT:g} ms")
    strategies = (FedAvg(), FedAU(), CAFed(), OptimalSampling(), MIFA(), FedVARP(), FedLaAvg(), FedAWE())
    wanted = [one for one in strategies if chosen.only in (None, type(one).__name__)]
    held = [measure(strategy, chosen.clients, chosen.megabytes, chosen.rounds) for strategy in wanted]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
