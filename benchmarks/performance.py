"""How near to the machine the simulator comes: operations, bytes and milliseconds of a round, ceilings, and peers.

    python benchmarks/performance.py --store                         # in docs/results/performance.json
    python benchmarks/performance.py --peers ENV/bin/python --store  # beside PyTorch, where that environment has it
    python benchmarks/performance.py --only W1,W2 --repeats 3
    python benchmarks/performance.py --only W1 --availability 100000000
    python benchmarks/performance.py --larger --peers ENV/bin/python  # also the rows of larger_models.py

A round is timed by two lengths of run, so that what is paid once does not count. Contenders alternate, figures are
medians. Operations and bytes are those that the work needs in whatever program: products of matrices; inputs, weights
and the outputs of every layer, each written once and read where it is used. Times of a CPU that others use too say
little by themselves: compare those of one run.
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
import jax.numpy as jnp
import jax.random as jr
import larger_models
import numpy as np

from turnout.availability import bernoulli
from turnout.simulator import simulate, simulate_trials
from turnout.simulator.client_optimizer import Local, Precision
from turnout.simulator.side_by_side import on_cpu
from turnout.simulator.trial import Trial
from turnout.strategies import FedAvg
from turnout.tasks import from_arrays, linear, model_named
from turnout.tasks.base import Task
from turnout.tasks.models.layers import Conv, Dense
from turnout.tasks.models.networks import NETWORKS
from turnout.world import World

STORED = Path(__file__).parent.parent / "docs" / "results" / "performance.json"
NUM_CLIENTS, BATCH, NUM_CLASSES, NUM_FEATURES = 100, 32, 10, 60
BYTES = 4


@dataclass(frozen=True)
class Workload:
    """Rounds of one kind: a model, who trains, and for how long a round is measured."""

    model: str
    image: tuple[int, ...]
    steps: int
    cohort: int | None  # clients asked; None for all that are there, half of the fleet
    lengths: tuple[int, int]  # rounds of the short and the long run
    precision: Precision = "float32"

    @property
    def clients(self) -> int:
        return self.cohort or NUM_CLIENTS // 2

    def task(self) -> Task:
        draw = np.random.default_rng(0)
        count = NUM_CLIENTS * 100
        labels, owners = draw.integers(0, NUM_CLASSES, count), np.repeat(np.arange(NUM_CLIENTS), 100)
        if self.model == "linear":
            inputs = draw.normal(size=(count, *self.image)).astype(np.float32)
            model = linear(NUM_FEATURES, NUM_CLASSES)
        else:
            inputs = draw.integers(0, 256, (count, *self.image)).astype(np.uint8)
            model = model_named(self.model, self.image, NUM_CLASSES)
        few = (inputs[::20], labels[::20], owners[::20])
        return from_arrays(train=(inputs, labels, owners), validation=few, test=few, model=model)

    def work(self) -> tuple[float, float]:
        """Operations and bytes of one round."""
        operations, numbers = 0, BATCH * int(np.prod(self.image))
        for flops, outputs in _layers(self.model, self.image):
            operations += flops
            numbers += 4 * outputs  # written, read by the next layer and by the gradient, and the gradient itself
        jobs = self.clients * self.steps
        shapes = jax.eval_shape(self.task().init, jr.key(0))
        weights = sum(leaf.size for leaf in jax.tree.leaves(shapes))
        return float(jobs * operations), float(BYTES * (jobs * (numbers + 4 * weights) + 3 * self.clients * weights))


def _layers(model: str, image: tuple[int, ...]) -> list[tuple[int, int]]:
    """Operations of a local step, and numbers that come out of a batch, layer by layer."""
    if model == "linear":
        return [(4 * BATCH * NUM_FEATURES * NUM_CLASSES, BATCH * NUM_CLASSES)]
    shape, found = (*image, 1) if len(image) == 2 else image, []
    for layer in NETWORKS[model](NUM_CLASSES):
        after = layer.init(jr.key(0), shape)[1]
        outputs, flops = BATCH * int(np.prod(after)), 0
        if isinstance(layer, Conv | Dense):
            fan_in = layer.size**2 * shape[-1] if isinstance(layer, Conv) else int(np.prod(shape))
            # forward, gradient of the weights, and gradient of the inputs, which the first layer need not have
            flops = (3 if found else 2) * 2 * outputs * fan_in
            found.append((flops, outputs))
        shape = after
    return found


WORKLOADS = {
    "W1": Workload("linear", (NUM_FEATURES,), 5, None, (200, 1000)),
    "W2": Workload("cnn_fedacs_mnist", (28, 28), 10, 10, (1, 3) if on_cpu() else (50, 200)),
    "W3": Workload("cnn_debiased", (32, 32, 3), 5, None, (10, 40)),
    "W3 bfloat16": Workload("cnn_debiased", (32, 32, 3), 5, None, (10, 40), "bfloat16"),
    "W4": Workload("cnn_ca_fed", (32, 32, 3), 5, None, (10, 40)),
    "W4 bfloat16": Workload("cnn_ca_fed", (32, 32, 3), 5, None, (10, 40), "bfloat16"),
}
ON_CPU = ("W1", "W2")
SEEDS = {"W1": 10, "W3": 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="workloads, such as W1,W2")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--many", action="store_true", help="also 420 trainings of W1 as one program")
    parser.add_argument("--larger", action="store_true", help="also the rows of larger_models.py")
    parser.add_argument("--availability", type=int, metavar="N", help="also the availability alone of N clients")
    parser.add_argument("--store", nargs="?", type=Path, const=STORED, metavar="FILE")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else ON_CPU if on_cpu() else list(WORKLOADS)
    note = Notes(options.store)
    note.add({"machine": machine(), "jax": jax.__version__, "ceilings": ceilings()})
    if options.peers:
        note.add({"peers": beside_peers(names, options.peers, options.repeats)})
    if options.availability:
        note.add({"availability": availability_of(options.availability)})
    if "W1" in names:
        note.add({"call": whole_calls(options.many)})
    if options.larger:
        note.add({"larger": larger_models.measure(list(larger_models.ROWS), options.peers, options.repeats)})
    for name in names:
        note.add({"rounds": note.found.get("rounds", {}) | {name: round_of(name, options.repeats)}})


class Notes:
    """What was measured, printed and kept as it comes, beside that of other kinds of devices."""

    def __init__(self, file: Path | None) -> None:
        self.file, self.found = file, dict[str, Any]()

    def add(self, measured: dict[str, Any]) -> None:
        print(json.dumps(measured), flush=True)
        self.found |= measured
        if self.file is not None:
            kept = json.loads(self.file.read_text()) if self.file.exists() else {}
            device = jax.devices()[0].platform  # what other benchmarks stored of it stays
            self.file.write_text(json.dumps(kept | {device: kept.get(device, {}) | self.found}, indent=1) + "\n")


def machine() -> str:
    device = jax.devices()[0]
    return f"{len(os.sched_getaffinity(0))} cores" if device.platform == "cpu" else f"one {device.device_kind}"


def ceilings() -> dict[str, float]:
    """Operations and bytes per second that the device reaches where nothing else is done."""
    size = 1024 if on_cpu() else 8192
    found = {}
    for dtype in (jnp.float32, jnp.bfloat16):
        square = jnp.ones((size, size), dtype)
        found[f"product {dtype.__name__}"] = 2 * size**3 / best_of(jax.jit(jnp.matmul), square, square)
    line = jnp.ones(16 * size**2 if on_cpu() else 4 * size**2, jnp.float32)
    found["copy"] = 2 * line.nbytes / best_of(jax.jit(lambda x: x + 1), line)
    return {name: rounded(value) for name, value in found.items()}


def best_of(program: Callable[..., Any], *arguments: Any, repeats: int = 10) -> float:
    jax.block_until_ready(program(*arguments))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        times.append(time.perf_counter() - begin)
    return min(times)


def seconds_of(workload: Workload, task: Task, seeds: int, length: int) -> float:
    world = World(bernoulli(NUM_CLIENTS, 0.5), compute=workload.steps)
    local = Local(learning_rate=0.05, batch_size=BATCH, precision=workload.precision)
    options = {"rounds": length, "seeds": seeds, "evaluate_every": length, "metrics": ["test_accuracy"]}
    begin = time.perf_counter()
    simulate(task, world, FedAvg(cohort=workload.cohort), local=local, **options)
    return time.perf_counter() - begin


def per_round(workload: Workload, task: Task, seeds: int) -> Callable[[], float]:
    short, long = workload.lengths
    for length in workload.lengths:
        seconds_of(workload, task, seeds, length)
    return lambda: (seconds_of(workload, task, seeds, long) - seconds_of(workload, task, seeds, short)) / (long - short)


def round_of(name: str, repeats: int) -> dict[str, float]:
    """Milliseconds of a round, with what it must do."""
    workload = WORKLOADS[name]
    task, (operations, moved) = workload.task(), workload.work()
    contenders = {seeds: per_round(workload, task, seeds) for seeds in (1, SEEDS.get(name, 1))}
    times = in_turn(contenders, repeats)
    milliseconds = {f"ms, {seeds} seeds": rounded(1e3 * seconds) for seeds, seconds in times.items()}
    return {"operations": rounded(operations), "bytes": rounded(moved)} | milliseconds


def in_turn(contenders: dict[Any, Callable[[], float]], repeats: int) -> dict[Any, float]:
    """Median of several measurements, the contenders alternating."""
    times: dict[Any, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, measure in contenders.items():
            times[name].append(measure())
    return {name: statistics.median(values) for name, values in times.items()}


def whole_calls(many: bool) -> dict[str, float]:
    """Milliseconds of whole calls of 200 rounds of W1, after an equal call."""
    workload = WORKLOADS["W1"]
    task = workload.task()
    found = {"one training": best_call(lambda: seconds_of(workload, task, 1, 200))}
    if many:
        world, rates = World(bernoulli(NUM_CLIENTS, 0.5), compute=workload.steps), np.linspace(0.01, 0.1, 42).tolist()
        trials = [Trial(FedAvg(), world, Local(learning_rate=rate, batch_size=BATCH)) for rate in rates]
        options = {"rounds": 200, "seeds": 10, "evaluate_every": 200, "metrics": ["test_accuracy"]}

        def all_of_them() -> float:
            begin = time.perf_counter()
            simulate_trials(task, trials, **options)
            return time.perf_counter() - begin

        found["420 trainings"] = best_call(all_of_them)
    return found


def availability_of(num_clients: int, rounds: int = 20) -> dict[str, float]:
    """Milliseconds of a round in which nothing is drawn but who is there, independently, and the peak of memory."""
    process, key = bernoulli(num_clients, 0.5), jr.key(0)

    @jax.jit
    def play(process: Any, state: Any, last: Any) -> Any:
        def one_round(t: Any, carry: Any) -> Any:
            state, available = process.step(carry[0], t, jr.fold_in(key, t))
            return state, carry[1] + jnp.sum(available, dtype=jnp.float32)

        return jax.lax.fori_loop(0, last, one_round, (state, jnp.zeros(())))

    seconds = best_of(play, process, process.init(key), rounds, repeats=3)
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    return {"clients": num_clients, "ms": rounded(1e3 * seconds / rounds), "peak GiB": rounded(peak / 2**30)}


def best_call(call: Callable[[], float], repeats: int = 3) -> float:
    call()
    return rounded(1e3 * min(call() for _ in range(repeats)))


def beside_peers(names: list[str] | tuple[str, ...], python: str, repeats: int) -> dict[str, Any]:
    """Milliseconds of our rounds and of PyTorch's, in turn."""
    command = [python, str(Path(__file__).with_name("peers.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        questions, answers = peer.stdin, peer.stdout
        assert questions is not None
        assert answers is not None
        version = answers.readline().strip()
        theirs = [name for name in version.split(": ")[1].split(", ") if name.split()[0] in names]

        def ask(name: str) -> float:
            questions.write(name + "\n")
            questions.flush()
            return float(answers.readline())

        contenders: dict[str, Callable[[], float]] = {name: lambda name=name: ask(name) for name in theirs}
        for name in {name.split()[0] for name in theirs}:
            workload = WORKLOADS[name]
            contenders[f"{name} turnout"] = per_round(workload, workload.task(), 1)
        times = in_turn(contenders, repeats)
        questions.close()
    return {"version": version} | {name: rounded(1e3 * seconds) for name, seconds in sorted(times.items())}


def rounded(value: float) -> float:
    return float(f"{value:.3g}")


if __name__ == "__main__":
    main()
