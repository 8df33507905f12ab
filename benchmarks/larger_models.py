"""Milliseconds of local steps of larger models, ours and PyTorch's in turn: ResNet-8, a transformer, and adapters.

    python benchmarks/larger_models.py --peers ENV/bin/python          # an interpreter that has PyTorch
    python benchmarks/larger_models.py --only resnet8,adapters --repeats 3

Per row: a client after another, and, where the row says so, ten clients with one on each core in PyTorch. Rounds are
timed by two lengths of run, so that what is paid once does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np

from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg
from turnout.tasks import adapt, from_arrays, model_named, transformer
from turnout.tasks.base import Task
from turnout.tasks.models.model import Model
from turnout.world import World

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 96, 128, 256, 8, 6
RANK = 8


@dataclass(frozen=True)
class Row:
    """Clients that all train in every round."""

    clients: int
    steps: int
    batch: int
    lengths: tuple[int, int]  # rounds of the short and the long run

    @property
    def jobs(self) -> int:
        return self.clients * self.steps


ROWS = {
    "resnet8": Row(1, 4, 16, (1, 3)),
    "resnet8, 10 clients": Row(10, 1, 16, (1, 3)),
    "transformer": Row(1, 2, 8, (1, 3)),
    "transformer, remat": Row(1, 2, 8, (1, 3)),
    "adapters": Row(1, 2, 8, (1, 3)),
    "adapters, 10 clients": Row(10, 1, 8, (1, 3)),
}


def images_task(num_clients: int, model: Model) -> Task:
    draw = np.random.default_rng(0)
    count = 64 * num_clients
    images = draw.integers(0, 256, (count, 32, 32, 3)).astype(np.uint8)
    return _task(images, draw.integers(0, 10, count), num_clients, model)


def tokens_task(num_clients: int, model: Model) -> Task:
    draw = np.random.default_rng(0)
    count = 64 * num_clients
    tokens = draw.integers(0, VOCABULARY, (count, CONTEXT)).astype(np.int32)
    return _task(tokens, draw.integers(0, VOCABULARY, count), num_clients, model)


def _task(inputs: np.ndarray, labels: np.ndarray, num_clients: int, model: Model) -> Task:
    owners = np.arange(len(labels)) % num_clients
    few = inputs[:num_clients], labels[:num_clients], owners[:num_clients]
    return from_arrays((inputs, labels, owners), few, few, model=model)


def task_of(name: str) -> Task:
    row = ROWS[name]
    if name.startswith("resnet8"):
        return images_task(row.clients, model_named("resnet8", (32, 32, 3), 10))
    model = transformer(VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, remat="remat" in name)
    if name.startswith("adapters"):
        model = adapt(model, model.init(jr.key(0)), RANK, "attention")
    return tokens_task(row.clients, model)


def ours(name: str) -> Callable[[], float]:
    """Seconds of one local step, as a part of a simulated round."""
    row, task = ROWS[name], task_of(name)
    world = World(bernoulli(row.clients, 1.0), compute=row.steps)
    local = Local(learning_rate=0.01, batch_size=row.batch)

    def seconds(length: int) -> float:
        begin = time.perf_counter()
        options: dict[str, Any] = {"evaluate_every": length, "metrics": ["test_loss"]}
        simulate(task, world, FedAvg(), rounds=length, seeds=1, local=local, **options)
        return time.perf_counter() - begin

    for length in row.lengths:
        seconds(length)
    short, long = row.lengths
    return lambda: (seconds(long) - seconds(short)) / ((long - short) * row.jobs)


def measure(names: list[str], peers: str | None, repeats: int) -> dict[str, Any]:
    """Milliseconds per local step of one client; contenders of a row alternate."""
    found: dict[str, Any] = {}
    for name in names:
        contenders = {"turnout": ours(name)}
        with Peer(peers) as peer:
            if peer.answers(name):
                contenders["pytorch"] = lambda name=name, peer=peer: peer.seconds(name)
            times: dict[str, list[float]] = {who: [] for who in contenders}
            for _ in range(repeats):
                for who, contender in contenders.items():
                    times[who].append(contender())
        found[name] = {who: float(f"{1e3 * statistics.median(values):.3g}") for who, values in times.items()}
        print(json.dumps({name: found[name]}), flush=True)
    return found


class Peer:
    """PyTorch in a process of its own, which answers names with seconds per step."""

    def __init__(self, python: str | None) -> None:
        self._python = python

    def __enter__(self) -> Peer:
        self._names: list[str] = []
        if self._python is not None:
            command = [self._python, str(Path(__file__).with_name("larger_peers.py"))]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._names = json.loads(self._ask(None))
        return self

    def __exit__(self, *_: object) -> None:
        if self._python is not None:
            self._process.communicate()

    def answers(self, name: str) -> bool:
        return name in self._names

    def seconds(self, name: str) -> float:
        return float(self._ask(name))

    def _ask(self, name: str | None) -> str:
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None
        assert answers is not None
        if name is not None:
            questions.write(name + "\n")
            questions.flush()
        return answers.readline()


def machine() -> str:
    device = jax.devices()[0]
    return f"{len(os.sched_getaffinity(0))} cores" if device.platform == "cpu" else f"one {device.device_kind}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="names, such as resnet8,adapters: all that begin like this")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    wanted = tuple(options.only.split(",")) if options.only else ("",)
    print(json.dumps({"machine": machine(), "jax": jax.__version__}), flush=True)
    measure([name for name in ROWS if name.startswith(wanted)], options.peers, options.repeats)


if __name__ == "__main__":
    main()
