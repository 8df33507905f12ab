"""What the Flower adapter itself costs, beside Flower's own FedAvg, with clients that answer at once in this process.

    python benchmarks/flower.py                               # 100, 1,000 and 5,000 clients, a model of 1 MB
    python benchmarks/flower.py --clients 10000 --only FedAvg # needs turnout[flower]

Each round every client is asked, "trains" by adding a constant, and answers when its reply is fetched. What the grid
and the clients take, with the packing of their replies, is timed apart: a server's own cost is the rest of the round.
Every strategy has a process of its own, so that its peak of memory is known. Shown are the first round, which greets
everybody, with what its clients take, once with no compiled programs on disk and once with those of the time before, as
for every ServerApp but the first on a machine; then the median of the server's own cost in the others: seconds on the
clock, and of processor time on all cores, which other work on the machine changes less. In brackets: times the cost of
Flower's own FedAvg.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg as FlowersFedAvg
from flwr.serverapp.strategy import Strategy as Base
from flwr.supercore.task_identity import TaskIdentity

from turnout.flower import FlowerStrategy, Waiting, client_app
from turnout.flower.wire.messages import to_record
from turnout.strategies import MIFA, CAFed, FedAU, FedAvg, FedAWE, FedLaAvg, FedVARP, OptimalSampling

OWN = "Flower's FedAvg"
STRATEGIES = (FedAvg(), FedAU(), CAFed(), OptimalSampling(), MIFA(), FedVARP(), FedLaAvg(), FedAWE())
ALIKE = ("FedAvg", "FedAU")  # do what Flower's FedAvg does, one phase and no memory of models


class Cost(NamedTuple):
    """Seconds of processor time, and on the clock."""

    processor: float
    clock: float

    @classmethod
    def now(cls) -> Cost:
        return cls(time.process_time(), time.perf_counter())

    def since(self, before: Cost) -> Cost:
        return Cost(self.processor - before.processor, self.clock - before.clock)

    def plus(self, other: Cost) -> Cost:
        return Cost(self.processor + other.processor, self.clock + other.clock)


@dataclass
class Crowd(Grid):
    """Nodes that are always there and answer each message when the reply is fetched."""

    app: Any
    count: int
    waiting: dict[str, Message] = field(default_factory=dict)
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
        numbers = []
        for message in messages:
            self.sent += 1
            message.metadata.__dict__["_message_id"] = f"m{self.sent}"
            self.waiting[f"m{self.sent}"] = message
            numbers.append(f"m{self.sent}")
        return numbers

    def pull_messages(self, message_ids: Any) -> list[Message]:
        begin = Cost.now()
        replies = [self._reply(self.waiting.pop(number)) for number in message_ids if number in self.waiting]
        self.spent = self.spent.plus(Cost.now().since(begin))
        return replies

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = self.contexts.setdefault(node, Context(1, node, {"client-id": str(node)}, RecordDict(), {}))
        return self.app(message, context)


def train(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> Any:
    moved = {name: array + np.float32(0.001) for name, array in arrays.items()}
    return moved, {"loss": 1.0, "reach": 1, "num-examples": 1}


def loss(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> float:
    return 1.0


def measure(name: str, clients: int, megabytes: float, rounds: int) -> dict[str, Any]:
    """Seconds of the first round and of a later one, and the peak of memory; of one strategy, in this process."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    size = int(megabytes * 2**20 / 4)
    arrays = to_record({"w": np.zeros((size // 64, 64), np.float32), "b": np.zeros(64, np.float32)})
    crowd, config, spent = Crowd(client_app(train=train, loss=loss), clients), ConfigRecord({"lr": 0.1}), []
    ours = next((one for one in STRATEGIES if type(one).__name__ == name), None)
    strategy: Base = (
        FlowersFedAvg(fraction_evaluate=0.0)
        if ours is None
        else FlowerStrategy(ours, evaluate_every=0, waiting=Waiting(poll=0.001))
    )

    def stamp(t: int, model: Any) -> None:  # both servers evaluate before the first round, and after each
        spent.append((Cost.now(), crowd.spent))

    strategy.start(crowd, arrays, num_rounds=rounds + 1, train_config=config, evaluate_fn=stamp)
    own = [now.since(before).since(grid.since(grid_before)) for (before, grid_before), (now, grid) in pairwise(spent)]
    first = spent[1][0].since(spent[0][0]).clock
    assert not isinstance(strategy, FlowerStrategy) or len(strategy.records[-1].asked) == clients
    later = Cost(*(statistics.median(values) for values in zip(*own[1:], strict=True)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kilobytes on Linux
    return {"first": first, "clock": later.clock, "processor": later.processor, "peak": peak}


def measured_apart(name: str, clients: int, megabytes: float, rounds: int) -> dict[str, Any]:
    """The same, in a process of its own, after one that had to compile."""
    command = [sys.executable, __file__, "--clients", str(clients), "--megabytes", str(megabytes), "--here", name]
    with tempfile.TemporaryDirectory() as programs:
        environment = os.environ | {"TURNOUT_CACHE": programs}
        cold, warm = (
            json.loads(
                subprocess.run(
                    [*command, "--rounds", str(length)], check=True, stdout=subprocess.PIPE, text=True, env=environment
                ).stdout.splitlines()[-1]
            )
            for length in (1, rounds)
        )
    return warm | {"cold": cold["first"]}


def compare(clients: int, chosen: argparse.Namespace) -> bool:
    """Print a table of one size; whether what is like Flower's FedAvg costs at most 1.2 times as much."""
    print(f"\n{clients} clients, {chosen.megabytes:g} MB\n")
    print(
        "| strategy | first round, nothing compiled, s | first round, s | round, s | processors, s | peak memory, GiB |"
    )
    print("|---|---|---|---|---|---|")
    names = [type(one).__name__ for one in STRATEGIES]
    wanted = [name for name in names if chosen.only in (None, name) and (clients <= 1000 or name in ALIKE)]
    theirs, held = measured_apart(OWN, clients, chosen.megabytes, chosen.rounds), True
    for name in [OWN, *wanted]:
        one = theirs if name == OWN else measured_apart(name, clients, chosen.megabytes, chosen.rounds)
        keys = ("cold", "first", "clock", "processor", "peak")
        cells = (f"{one[key]:.2f} ({one[key] / theirs[key]:.1f} ×)" for key in keys)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        held &= name not in ALIKE or one["processor"] <= 1.2 * theirs["processor"]
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="one strategy of ours, by its class")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here is not None:
        print(json.dumps(measure(chosen.here, chosen.clients[0], chosen.megabytes, chosen.rounds)))
        return
    held = [compare(clients, chosen) for clients in chosen.clients]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
