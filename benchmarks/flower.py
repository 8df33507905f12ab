"""What the Flower adapter itself costs: a fleet of clients that answer at once, on a grid in this process.

    python benchmarks/flower.py            # 1,000 clients, a model of 1 MB; needs turnout[flower]

Each round every client is asked, "trains" by adding a constant, and answers. Timed apart: writing the messages
(`configure_train`), the clients with the packing of their replies, and reading, checking and aggregating them
(`aggregate_train`). The adapter's own cost is the first and the last.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from turnout.flower import FlowerStrategy, client_app
from turnout.flower.messages import to_record
from turnout.strategies import MIFA, FedAvg, FedAWE, Strategy


@dataclass
class Crowd(Grid):
    """Nodes that are always there and answer each message when it is sent."""

    app: Any
    count: int
    replies: dict[str, Message] = field(default_factory=dict)
    sent: int = 0

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
        numbers = []
        for message in messages:
            self.sent += 1
            message.metadata.__dict__["_message_id"] = f"m{self.sent}"
            node = message.metadata.dst_node_id
            context = Context(1, node, {"client-id": str(node)}, RecordDict(), {})
            self.replies[f"m{self.sent}"] = self.app(message, context)
            numbers.append(f"m{self.sent}")
        return numbers

    def pull_messages(self, message_ids: Any) -> list[Message]:
        return [self.replies.pop(number) for number in message_ids if number in self.replies]

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


def train(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> Any:
    return {name: array + np.float32(0.001) for name, array in arrays.items()}, {"loss": 1.0, "reach": 1}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    found = work()
    return found, 1000 * (time.perf_counter() - begin)


def measure(strategy: Strategy, clients: int, megabytes: float, rounds: int) -> None:
    size = int(megabytes * 2**20 / 4)
    model = to_record({"w": np.zeros((size // 64, 64), np.float32), "b": np.zeros(64, np.float32)})
    grid, flower, config = Crowd(client_app(train=train), clients), FlowerStrategy(strategy), ConfigRecord({"lr": 0.1})
    costs = []
    for t in range(1, rounds + 2):  # the first compiles, and greets everybody
        messages, writing = timed(lambda t=t: flower.configure_train(t, model, config, grid))
        replies, working = timed(lambda messages=messages: grid.send_and_receive(messages))
        _, reading = timed(lambda t=t, replies=replies: flower.aggregate_train(t, replies))
        assert len(flower.records[-1].arrived) == clients
        costs.append((writing / clients, working / clients, reading / clients))
    own = statistics.median(writing + reading for writing, _, reading in costs[1:])
    parts = [statistics.median(cost[part] for cost in costs[1:]) for part in range(3)]
    shown = ", ".join(f"{name} {part:.2f}" for name, part in zip(("write", "clients", "read"), parts, strict=True))
    print(f"{type(strategy).__name__:8} {clients} clients, {megabytes:g} MB: {own:.2f} ms a client-round ({shown})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    for strategy in (FedAvg(), MIFA(), FedAWE()):
        measure(strategy, chosen.clients, chosen.megabytes, chosen.rounds)


if __name__ == "__main__":
    main()
