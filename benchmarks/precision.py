"""What 16 bits cost and gain: accuracy and time of the same trainings in float32 and in bfloat16, paired by seed.

    python benchmarks/precision.py --store  # CIFAR-10, in docs/results/precision.json; wants a GPU
    python benchmarks/precision.py --task fashion_mnist --model linear --rounds 20  # a quick look

Absence, lost uploads and unequal work as in the joint world of docs/matrix.md. Every seed has its own deal of the
images, its own world and its own first model, the same for both precisions. The rate is one for all, not tuned.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np
from performance import machine, rounded

from turnout import tasks
from turnout.availability import two_classes
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local, Precision
from turnout.statistics import Interval
from turnout.strategies import FedAvg, LastWord
from turnout.world import World, compute, links

STORED = Path(__file__).parent.parent / "docs" / "results" / "precision.json"
CLIENTS, RATE = 100, 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="cifar10", choices=["cifar10", "fashion_mnist"])
    parser.add_argument("--model", default="cnn_debiased")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--store", nargs="?", type=Path, const=STORED, metavar="FILE")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "jax": jax.__version__, "rounds": options.rounds}
    found |= {"task": options.task, "model": options.model, "seeds": options.seeds, "rows": {}}
    for strategy in (FedAvg(), LastWord()):
        found["rows"][type(strategy).__name__] = row = compared(strategy, options)
        print(type(strategy).__name__, json.dumps(row), flush=True)
    if options.store:
        options.store.write_text(json.dumps(found, indent=1) + "\n")


def compared(strategy: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy in percent of each precision, the paired difference with its interval, and seconds per training."""
    percent: dict[str, list[float]] = {precision: [] for precision in get_args(Precision)}
    seconds = dict.fromkeys(percent, float("inf"))
    for seed in range(options.seeds):
        task, world = dealt(options.task, options.model, seed), troubled(seed)
        for precision in percent:
            begin = time.perf_counter()
            local = Local(learning_rate=RATE, batch_size=32, precision=precision)
            length = {"rounds": options.rounds, "evaluate_every": options.rounds, "seeds": [seed]}
            run = simulate(task, world, strategy, local=local, metrics=["test_accuracy"], **length)
            percent[precision].append(100 * float(run.metrics["test_accuracy"][0, -1]))
            seconds[precision] = min(seconds[precision], time.perf_counter() - begin)
    change = np.subtract(percent["bfloat16"], percent["float32"])
    lead = Interval.of(change)
    means = {precision: rounded(float(np.mean(values))) for precision, values in percent.items()}
    interval = {"change": round(lead.mean, 2), "low": round(lead.low, 2), "high": round(lead.high, 2)}
    return means | interval | {f"seconds {name}": rounded(value) for name, value in seconds.items()}


def dealt(name: str, model: str, seed: int) -> Any:
    make = tasks.cifar10 if name == "cifar10" else tasks.fashion_mnist
    split = {"partition": "dirichlet", "alpha": 0.5, "min_size": 10, "importance": "uniform", "test_set": "common"}
    return make(num_clients=CLIENTS, model=model, ridge=0.0, validation=0.1, seed=seed, **split)


def troubled(seed: int) -> World:
    availability = two_classes(CLIENTS, gap=0.4, seed=seed)
    return World(
        availability, links.drawn(CLIENTS, low=0.4, high=1.0, seed=seed), compute.redrawn(CLIENTS, low=1, high=19)
    )


if __name__ == "__main__":
    main()
