"""Speed of the simulator, in one run: against the usual per-client PyTorch loop, and by the size of the fleet.

    make bench                                   # everything, about three minutes
    python benchmarks/simulator.py --only training
    python benchmarks/simulator.py --only population
    make bench ARGS="--store docs/results/speed.json"   # keep what README shows; then `make sections`

Everything is timed after compilation, the contenders in turn, several times over, so that a noisy machine is noisy for
both; figures are medians. PyTorch is optional: without it only our own times are printed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.simulator.programs import use_compilation_cache
from turnout.strategies import FedAvg
from turnout.tasks import from_arrays, linear
from turnout.tasks.data.data_task import DataTask, Split
from turnout.tasks.models.model import LOSSES
from turnout.world import World

NUM_CLIENTS, NUM_SAMPLES, NUM_FEATURES, NUM_CLASSES = 100, 100, 60, 10
STEPS, BATCH, RATE = 5, 32, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["training", "population"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep the numbers there, by kind of device")
    options = parser.parse_args()
    use_compilation_cache()
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    found: dict = {"machine": f"{os.cpu_count()} cores"}
    if options.only != "population":
        found["training"] = training(options.repeats)
    if options.only != "training":
        found |= population(options.repeats)
    if options.store:
        store(options.store, found)


def store(file: Path, found: dict) -> None:
    """Write milliseconds beside those of other kinds of devices, and of parts that were not measured now."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        found["machine"] = f"one {device.device_kind}"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {device.platform: known.get(device.platform, {}) | found}, indent=1) + "\n")


def milliseconds(times: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{1e3 * seconds:.3g}") for name, seconds in times.items()}


def training(repeats: int) -> dict[str, float]:
    """W1: 100 clients, each available every second round, 5 SGD steps of batch 32 on a linear model, 200 rounds."""
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(NUM_CLIENTS * NUM_SAMPLES, NUM_FEATURES)).astype(np.float32)
    labels = draw.integers(0, NUM_CLASSES, NUM_CLIENTS * NUM_SAMPLES)
    owners = np.repeat(np.arange(NUM_CLIENTS), NUM_SAMPLES)
    data = (inputs, labels, owners)
    task = from_arrays(train=data, validation=data, test=data, model=linear(NUM_FEATURES, NUM_CLASSES))
    scene = World(bernoulli(NUM_CLIENTS, 0.5), compute=STEPS)
    local = Local(learning_rate=RATE, batch_size=BATCH)

    def ours(seeds: int, rounds: int) -> float:
        begin = time.perf_counter()
        simulate(task, scene, FedAvg(), rounds=rounds, seeds=seeds, local=local, evaluate_every=rounds)
        return time.perf_counter() - begin

    contenders = {
        "turnout, 1 seed": marginal(lambda rounds: ours(1, rounds)),
        "turnout, 10 seeds": marginal(lambda rounds: ours(10, rounds)),
        **torch_rounds(inputs, labels),
    }
    times = in_turn(contenders, repeats)
    one = times["turnout, 1 seed"]
    print("W1, one round of 100 clients (half of them there, 5 steps of batch 32, linear model), milliseconds")
    for name in contenders:
        print(f"  {name:22} {1e3 * times[name]:8.3f}   {times[name] / one:.1f} times turnout with 1 seed")
    return milliseconds(times)


def marginal(run: Callable[[int], float], short: int = 200, long: int = 1200) -> Callable[[], float]:
    """Seconds a round, from two lengths of run, so that what is paid once a run does not count."""
    for rounds in (short, long):
        run(rounds)
    return lambda: (run(long) - run(short)) / (long - short)


def in_turn(contenders: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Median of several measurements, the contenders alternating."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, measure in contenders.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


def torch_rounds(inputs: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], float]]:
    """Seconds for a round of the loop that most research code is: one nn.Linear a client, autograd, its own batches."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here: no comparison")
        return {}
    from torch.utils.data import DataLoader, TensorDataset

    xs = torch.from_numpy(inputs).reshape(NUM_CLIENTS, NUM_SAMPLES, NUM_FEATURES)
    ys = torch.from_numpy(labels).reshape(NUM_CLIENTS, NUM_SAMPLES)
    loaders = [DataLoader(TensorDataset(x, y), BATCH, shuffle=True) for x, y in zip(xs, ys, strict=True)]
    server = torch.nn.Linear(NUM_FEATURES, NUM_CLASSES)
    criterion = torch.nn.CrossEntropyLoss()

    def drawn(client: int) -> Iterator:
        while True:
            rows = torch.randint(NUM_SAMPLES, (BATCH,))
            yield xs[client, rows], ys[client, rows]

    def loaded(client: int) -> Iterator:
        while True:
            yield from loaders[client]

    def local_update(batches: Iterator, weights: dict) -> dict:
        model = torch.nn.Linear(NUM_FEATURES, NUM_CLASSES)
        model.load_state_dict(weights)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for x, y in itertools.islice(batches, STEPS):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        return {name: value - weights[name] for name, value in model.state_dict().items()}

    def round_of(batches: Callable[[int], Iterator]) -> None:
        weights = {name: value.clone() for name, value in server.state_dict().items()}
        there = torch.nonzero(torch.rand(NUM_CLIENTS) < 0.5)
        updates = [local_update(batches(int(k)), weights) for k in there]
        mean = {name: sum(u[name] for u in updates) / max(len(updates), 1) for name in weights}
        server.load_state_dict({name: weights[name] + mean[name] for name in weights})

    def timed(batches: Callable[[int], Iterator], rounds: int = 5) -> Callable[[], float]:
        def measure() -> float:
            begin = time.perf_counter()
            for _ in range(rounds):
                round_of(batches)
            return (time.perf_counter() - begin) / rounds

        measure()
        return measure

    return {"PyTorch, index batches": timed(drawn), "PyTorch, DataLoader": timed(loaded)}


def population(repeats: int) -> dict:
    """1,000 participants per round out of ever larger fleets: the cost should follow the participants."""
    tasks = {count: fleet_of(count) for count in (10**4, 10**5, 10**6)}
    local = Local(learning_rate=RATE, batch_size=8)

    def run(count: int, rounds: int) -> float:
        begin = time.perf_counter()
        scene = World(bernoulli(count, 0.5), compute=STEPS)
        options = {"rounds": rounds, "evaluate_every": rounds, "metrics": ["test_accuracy"]}
        simulate(tasks[count], scene, FedAvg(cohort=1000), local=local, **options)
        return time.perf_counter() - begin

    times = in_turn({str(n): marginal(lambda r, n=n: run(n, r), 5, 25) for n in tasks}, repeats)
    base = times["10000"]
    print("Population, one round of 1,000 participants (5 steps of batch 8, linear model), milliseconds")
    for count in tasks:
        print(f"  {count:>9,} clients {1e3 * times[str(count)]:9.2f}   {times[str(count)] / base:.2f} times 10,000")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  peak memory of the whole process {peak:.2f} GiB")
    return {"population": milliseconds(times), "peak_gib": round(peak, 1)}


def fleet_of(count: int, each: int = 10, pool: int = 50_000) -> DataTask:
    """A linear task whose clients hold index lists into one common pool of samples."""
    draw = np.random.default_rng(1)
    inputs = draw.normal(size=(pool, NUM_FEATURES)).astype(np.float32)
    classes = draw.integers(0, NUM_CLASSES, pool)
    rows = draw.integers(0, pool, count * each)
    owners = np.repeat(np.arange(count), each)
    train = Split.group(inputs, classes[rows], owners, count, rows=rows)
    few = slice(0, 1000)
    test = Split.group(inputs, classes[rows[few]], owners[few], count, rows=rows[few])
    model = linear(NUM_FEATURES, NUM_CLASSES)
    return DataTask(train, test, test, model, LOSSES["cross_entropy"], worth=jnp.ones(count))


if __name__ == "__main__":
    main()
