"""What unequal numbers of local steps cost, by the slots and lanes that train side by side.

    python benchmarks/unequal_steps.py                      # on whatever device JAX finds
    python benchmarks/unequal_steps.py --model linear --batch 32

The world of Weng et al. 2025: six clients per round, each with 1 to 39 epochs to do, on batches that fill a device by
themselves. A lane is a seed or a trial; so many slots of every lane train together, those of most steps first. The
ideal is the sum of all steps times the cheapest step: a job's share of the time where all have equally many, over all
widths. Images are noise. Everything is timed after compilation, the contenders in turn; figures are medians.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from simulator import in_turn
from turnout import tree
from turnout.simulator.client import Client
from turnout.simulator.client_optimizer import Local
from turnout.simulator.cohort_work import train_cohort
from turnout.simulator.local_training import Jobs
from turnout.tasks import from_arrays
from turnout.tasks.base import Task
from turnout.tasks.models.networks import model_named
from turnout.types import Download

MOST_STEPS, NUM_CLASSES = 39, 10
IMAGES = {"cnn_fedacs_mnist": (28, 28), "linear": (28, 28), "mlp": (28, 28), "cnn_fedacs_cifar10": (32, 32, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description="What unequal numbers of local steps cost.")
    parser.add_argument("--model", choices=sorted(IMAGES), default="cnn_fedacs_mnist")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--slots", type=int, default=6)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--chunks", type=int, nargs="+", default=[1, 2, 6])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    device = jax.devices()[0]
    print(f"jax {jax.__version__} on {device.device_kind} ({device.platform})")
    task = noise_task(options.model, options.batch, options.slots)
    pairs = [(lanes, chunk) for lanes in options.lanes for chunk in options.chunks]
    draw = np.random.default_rng(1)
    steps = {lanes: draw.integers(1, MOST_STEPS + 1, (lanes, options.slots)) for lanes in options.lanes}
    contenders = {f"unequal {pair}": prepared(task, options.batch, steps[pair[0]], pair[1]) for pair in pairs}
    even = {lanes: np.full((lanes, options.slots), MOST_STEPS // 2) for lanes in options.lanes}
    contenders |= {f"equal {pair}": prepared(task, options.batch, even[pair[0]], pair[1]) for pair in pairs}
    times = in_turn(contenders, options.repeats)
    best = min(times[f"equal {pair}"] / even[pair[0]].sum() for pair in pairs)
    print(f"{options.model}, batch {options.batch}: {options.slots} jobs of 1 to {MOST_STEPS} steps in every lane")
    print(f"The cheapest step takes {1e3 * best:.3f} ms")
    print(f"{'lanes':>6}{'chunk':>9}{'ms a lane':>12}{'/ ideal':>9}{'/ ideal, were all steps equal':>32}")
    for pair in pairs:
        lanes, chunk = pair
        mine, equal = times[f"unequal {pair}"], times[f"equal {pair}"]
        ratios = mine / (best * steps[lanes].sum()), equal / (best * even[lanes].sum())
        print(f"{lanes:6}{chunk:9}{1e3 * mine / lanes:12.2f}{ratios[0]:9.2f}{ratios[1]:32.2f}")


def noise_task(model: str, batch: int, slots: int) -> Task:
    """Two batches of random images at every client."""
    draw, image, count = np.random.default_rng(0), IMAGES[model], slots * 2 * batch
    inputs = draw.integers(0, 256, (count, *image), np.uint8)
    train = inputs, draw.integers(0, NUM_CLASSES, count), np.repeat(np.arange(slots), 2 * batch)
    return from_arrays(train, validation_share=0.0, model=model_named(model, image, NUM_CLASSES))


def prepared(task: Task, batch: int, steps: np.ndarray, chunk: int) -> Callable[[], float]:
    """A compiled round of all lanes, and how long it runs."""
    inputs = task, jr.bits(jr.key(0), steps.shape, jnp.uint32), jnp.asarray(steps, jnp.int32), batch, chunk
    jax.block_until_ready(play(*inputs))

    def measure() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(play(*inputs))
        return time.perf_counter() - begin

    return measure


@partial(jax.jit, static_argnums=(3, 4))
def play(task: Task, seeds: jax.Array, steps: jax.Array, batch: int, chunk: int) -> Any:
    """Updates of all jobs of all lanes."""
    slots = steps.shape[1]
    start, rates = Download(tree.repeat(task.init(jr.key(1)), slots)), jnp.full(slots, 0.01)

    def lane(seeds: jax.Array, steps: jax.Array) -> Any:
        jobs = Jobs(jnp.arange(slots, dtype=jnp.int32), seeds, steps, rates)
        return train_cohort(Client(Local(batch_size=batch)), task, start, jobs, None, chunk)

    return jax.vmap(lane)(seeds, steps)


if __name__ == "__main__":
    main()
