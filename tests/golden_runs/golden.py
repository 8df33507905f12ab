"""Short runs of every strategy whose numbers are stored: a change that moves them is a change of results.

`python tests/golden_runs/golden.py` compares to the last bit, which only the machine that stored them can promise;
`--store` stores them anew. The tests compare with a tolerance.
"""

import json
import sys
from pathlib import Path

import numpy as np

import turnout
from turnout import availability, compute, links, tasks, uploads
from turnout.simulator.programs import keep_few_programs, use_compilation_cache
from turnout.strategies import MIFA, FedAvg, FedLaAvg, LastWord, StaleFill

STORED = Path(__file__).with_name("golden.json")
NUM_CLIENTS = 7
# What these did by default before empty rounds moved nothing, and before LastWord's rule had all its parts.
BEFORE = {
    "mifa": MIFA(moves_when_empty=True),
    "mifa wait": MIFA(wait=True, moves_when_empty=True),
    "mifa bits": MIFA(bits=16, moves_when_empty=True),
    "fedlaavg": FedLaAvg(moves_when_empty=True),
    "fedlaavg cohort": FedLaAvg(cohort=2, warmup=3, moves_when_empty=True),
    "stale_fill": StaleFill(cohort=3, moves_when_empty=True),
    "last_word": LastWord(rule="plain"),
    "last_word plain": LastWord(fading=0.0, rule="plain"),
    "last_word cohort": LastWord(cohort=3, rule="plain"),
    "last_word bits": LastWord(bits=8, rule="plain"),
    "mifa clients": MIFA(memory="clients", moves_when_empty=True),
    "mifa clients wait": MIFA(memory="clients", wait=True, moves_when_empty=True),
    "last_word clients": LastWord(memory="clients", rule="plain"),
    "last_word clients cohort": LastWord(memory="clients", cohort=3, fading=1.0, rule="plain"),
}


def short_run(strategy, **options):
    """Two seeds of a fleet that differs in everything: availability, links, steps, data."""
    task = tasks.synthetic_leaf(num_clients=NUM_CLIENTS, num_features=8, num_classes=4, samples_per_client=50, seed=3)
    pi, lam = np.linspace(0.2, 0.8, NUM_CLIENTS).tolist(), np.linspace(0.0, 0.6, NUM_CLIENTS).tolist()
    world = turnout.World(
        availability.markov(NUM_CLIENTS, pi=pi, lam=lam),
        links.bernoulli(NUM_CLIENTS, 0.9),
        compute.per_client(NUM_CLIENTS, [1, 2, 3, 1, 2, 3, 4]),
    )
    local = turnout.Local(learning_rate=0.05, batch_size=10)
    return turnout.simulate(task, world, strategy, rounds=20, seeds=2, local=local, evaluate_every=10, **options)


def numbers(run):
    """What is stored of a run: losses, weights by client and the length of the final models, 32-bit floats."""
    lengths = [np.sqrt(sum((np.asarray(leaf[i]) ** 2).sum() for leaf in _leaves(run.params))) for i in range(2)]
    arrays = {"loss": run.metrics["train_loss"], "weight": run.clients["weight"], "length": np.array(lengths)}
    return {name: np.asarray(values, np.float32).tolist() for name, values in arrays.items()}


def _leaves(params):
    import jax

    return jax.tree.leaves(params)


def golden_runs():
    """Every stored run by its name, as a function that runs it."""
    from every_strategy import MEMORIES_ON_CLIENTS, SETTINGS

    runs = {name: lambda strategy=strategy: short_run(strategy) for name, strategy in SETTINGS.items()}
    unbiased = SETTINGS["unbiased"]
    runs["unbiased online"] = lambda: short_run(unbiased, facts=turnout.Online())
    runs["unbiased rest"] = lambda: short_run(unbiased, rest=1)
    runs["fedavg cohort rest"] = lambda: short_run(FedAvg(cohort=2), rest=1)
    runs["fedavg draws rest"] = lambda: short_run(SETTINGS["fedavg draws"], rest=2)
    for name, strategy in MEMORIES_ON_CLIENTS.items():
        runs[name] = lambda strategy=strategy: short_run(strategy)
        runs[f"{name} eight_bit"] = lambda strategy=strategy: short_run(strategy, uploads=uploads.EightBit())
    return runs | {f"{name} before": lambda strategy=strategy: short_run(strategy) for name, strategy in BEFORE.items()}


def main():
    sys.path.insert(0, str(Path(__file__).parents[1]))
    use_compilation_cache()
    keep_few_programs()
    fresh = {name: numbers(run()) for name, run in golden_runs().items()}
    if "--store" in sys.argv:
        lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in fresh.items()]
        STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    stored = json.loads(STORED.read_text())
    moved = [name for name in fresh if fresh[name] != stored.get(name)]
    print(f"{len(fresh) - len(moved)} of {len(fresh)} runs are the same to the last bit", *moved, sep="\n")
    sys.exit(bool(moved))


if __name__ == "__main__":
    main()
