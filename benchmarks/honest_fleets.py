"""How often the guard of `turnout.flower` touches an honest fleet, by simulated ones; some minutes.

    python benchmarks/honest_fleets.py     # needs turnout[flower,data], and MNIST

Clients are unlike in their data, in how often they come and in how many local steps they do: the same number for all,
one of 1 to 19 for each, or one drawn anew in every round. FedAvg trains for 100 rounds without a guard; the guard
looks at what the clients send. Told are the updates that it would shorten, the reports of reach that it would not
believe, and the evaluations by the median client that it would take for a collapse.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout import tasks, tree
from turnout.flower import Guard
from turnout.flower.server.inspector import Inspector
from turnout.flower.server.rollback import has_collapsed
from turnout.flower.wire.replies import Reply
from turnout.metrics import TEST_ACCURACY, TEST_LOSS
from turnout.simulator.client_optimizer import Local
from turnout.simulator.local_training import Jobs, train_locally
from turnout.strategies import FedAvg

ROUNDS, BATCH, MOST_STEPS = 100, 16, 19
WORK = ("same", "own", "drawn")


def fleets() -> Iterator[tuple[str, int, Any, float]]:
    """Name, seed, task and learning rate."""
    for count in (6, 20):
        for seed in range(3):
            options = {"num_clients": count, "seed": seed}
            leaf = {**options, "importance": "uniform"}
            yield f"LEAF, {count} clients, seed {seed}", seed, tasks.synthetic_leaf(**leaf), 0.05
            unlike = tasks.synthetic_leaf(gamma=1.0, delta=1.0, **leaf)
            yield f"LEAF(1, 1), {count} clients, seed {seed}", seed, unlike, 0.05
            yield f"digits, {count} clients, seed {seed}", seed, tasks.digits(alpha=0.5, **options), 0.1
            network = tasks.digits(alpha=0.3, model="mlp", hidden=(32,), **options)
            yield f"digits by a network, {count} clients, seed {seed}", seed, network, 0.1
    yield "digits, one class per client", 0, tasks.digits(num_clients=20, partition="one_class_a_client"), 0.1
    yield "MNIST, 20 clients", 0, tasks.mnist(num_clients=20, alpha=0.3), 0.05


@eqx.filter_jit
def train(task: Any, local: Local, params: Any, steps: Any, words: Any) -> Any:
    """Updates of all clients, and their lengths."""
    count = task.num_clients
    jobs = Jobs(jnp.arange(count), words, steps, jnp.full(count, local.learning_rate, jnp.float32))
    updates = train_locally(local, task, tree.repeat(params, count), jobs, jnp.max(steps), masked=True).updates
    squares = [jnp.sum(jnp.square(leaf.reshape(count, -1)), axis=1) for leaf in jax.tree.leaves(updates)]
    return updates, jnp.sqrt(sum(squares))


@eqx.filter_jit
def move(task: Any, params: Any, updates: Any, weights: Any) -> Any:
    """The next model, and its evaluation by every client."""
    params = tree.add(params, tree.weighted_sum(updates, weights))
    return params, task.per_client(params)


def play(task: Any, rate: float, work: str, seed: int) -> Counter[str]:
    """Train, and count what the guard would have done."""
    count, draw, local = task.num_clients, np.random.default_rng(seed), Local(learning_rate=rate, batch_size=BATCH)
    pi, own = draw.permutation(np.linspace(0.15, 0.9, count)), draw.integers(1, MOST_STEPS + 1, count)
    params, inspector = task.init(jr.key(seed)), Inspector(Guard(), FedAvg())
    curves = {TEST_LOSS: [], TEST_ACCURACY: []}
    told: Counter[str] = Counter()
    for t in range(ROUNDS):
        here = np.flatnonzero(draw.random(count) < pi)
        steps = {"same": np.full(count, 5), "own": own, "drawn": draw.integers(1, MOST_STEPS + 1, count)}[work]
        words = jnp.asarray(draw.integers(0, 2**32, count, dtype=np.uint32))
        updates, lengths = train(task, local, params, jnp.asarray(steps, jnp.int32), words)
        norms = {str(place): float(lengths[place]) for place in here}
        inspector.look(norms, dict.fromkeys(norms, rate))
        inspector.correct(t, {str(k): Reply({}, norms[str(k)], None, float(steps[k]), 0) for k in here})
        weights = np.zeros(count, np.float32)
        weights[here] = np.asarray(task.importance)[here] / max(float(np.asarray(task.importance)[here].sum()), 1e-9)
        params, metrics = move(task, params, updates, jnp.asarray(weights))
        for metric, good in curves.items():
            value = float(np.nanmedian(metrics[metric]))
            bad = 1.0 - value if metric == TEST_ACCURACY else value
            collapsed = has_collapsed(metric, bad, good[-5:])
            told[f"collapses of {metric}"] += collapsed
            good += [] if collapsed else [bad]
        told["updates"] += len(here)
        told["evaluations"] += 1
    told["shortened"] = sum(suspicion.clipped for suspicion in inspector.suspects.values())
    told["not believed"] = sum(suspicion.doubted for suspicion in inspector.suspects.values())
    return told


def main() -> None:
    logging.getLogger("turnout.flower").setLevel(logging.CRITICAL)
    total: Counter[str] = Counter()
    for name, seed, task, rate in fleets():
        for work in WORK:
            told = play(task, rate, work, seed)
            total.update(told)
            total["fleets"] += 1
            if told["shortened"] or told["not believed"]:
                print(f"{name}, {work} work: {dict(told)}", flush=True)
    print(", ".join(f"{name}: {count:,}" for name, count in total.items()))


if __name__ == "__main__":
    main()
