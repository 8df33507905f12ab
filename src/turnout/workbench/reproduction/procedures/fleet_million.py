"""A fleet of a million clients, a thousand of them per round: time, memory and accuracy."""

from __future__ import annotations

import time

import jax
import numpy as np

from turnout.availability import markov
from turnout.metrics import TEST_ACCURACY
from turnout.server.facts import Facts, Online, Oracle
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.simulator.history import History
from turnout.strategies import AdaFed, FedAvg, Strategy, Unbiased
from turnout.tasks import linear
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TEST, TRAIN
from turnout.workbench.reproduction.curve_table import Curve
from turnout.world import World

NUM_FEATURES, NUM_CLASSES = 20, 10
POOL = 50_000  # samples to hold once; clients have lists of them
TEST_SAMPLES = 5_000
OVERLAP = 1.0  # deviation of the inputs around the mean of their class, whose entries are N(0, 1) / √2
OWN_HALF = 0.9  # share of a client's samples that are of its own half of the classes
TIMES_AS_OFTEN = 9.0  # frequent clients come so many times as often as rare ones
SEGMENTS = 10


def fleet_million(
    num_clients: int = 1_000_000,
    a_round: int = 1_000,
    rounds: int = 300,
    num_seeds: int = 3,
    samples_per_client: int = 8,
    learning_rate: float = 0.1,
) -> list[Curve]:
    """Accuracy of strategies in a large fleet, with the seconds of a round and the memory that they needed.

    Every second client comes nine times as often as the others, and holds mostly classes of the first half, the others
    mostly of the second; test data have all classes alike. Each chain stays on for two rounds in the mean.
    """
    task = fleet_task(num_clients, samples_per_client)
    rare = 2 * a_round / num_clients / (1 + TIMES_AS_OFTEN)
    pi = np.where(frequent(num_clients), TIMES_AS_OFTEN * rare, rare)
    world = World(markov(num_clients, pi=pi.tolist(), lam=0.5), compute=5)
    contenders: dict[str, tuple[Strategy, Facts]] = {
        "FedAvg": (FedAvg(), Oracle()),
        "Unbiased": (Unbiased(), Oracle()),
        "AdaFed": (AdaFed(), Oracle()),
        "AdaFed, estimated": (AdaFed(), Online()),
    }
    local = Local(learning_rate=learning_rate, batch_size=8)
    curves = []
    for label, (strategy, facts) in contenders.items():
        history, seconds = _time(task, world, strategy, facts, local, rounds, num_seeds)
        curves += _curves(label, history, seconds)
    return curves


def frequent(num_clients: int) -> np.ndarray:
    """Which clients come often."""
    return np.arange(num_clients) % 2 == 0


def fleet_task(num_clients: int, samples_per_client: int, seed: int = 0) -> DataTask:
    """A linear model; clients are lists of rows of one pool, and the kind of a client decides its classes."""
    draw = np.random.default_rng(seed)
    means = draw.standard_normal((NUM_CLASSES, NUM_FEATURES)) / np.sqrt(2)
    kinds = np.arange(POOL + TEST_SAMPLES) % NUM_CLASSES
    inputs = means[kinds] + OVERLAP * draw.standard_normal((kinds.size, NUM_FEATURES))
    owners = np.repeat(np.arange(num_clients), samples_per_client)
    own = draw.random(owners.size) < OWN_HALF
    half = NUM_CLASSES // 2
    wanted = draw.integers(0, half, owners.size) + half * (frequent(num_clients)[owners] != own)
    rows = wanted + NUM_CLASSES * draw.integers(0, POOL // NUM_CLASSES, owners.size)  # a row of that class
    tested = np.arange(POOL, POOL + TEST_SAMPLES)
    return from_pool(
        inputs.astype(np.float32),
        np.concatenate([wanted, kinds[tested]]),
        np.concatenate([owners, np.zeros_like(tested)]),  # one common set, booked to client 0
        np.repeat(np.array([TRAIN, TEST]), [owners.size, tested.size]),
        np.concatenate([rows, tested]),
        model=linear(NUM_FEATURES, NUM_CLASSES),
        ridge=1e-3,
        num_clients=num_clients,
    )


def _time(
    task: DataTask, world: World, strategy: Strategy, facts: Facts, local: Local, rounds: int, num_seeds: int
) -> tuple[History, float]:
    """A run, and the seconds of one round of one seed, without what came before the first segment's end."""
    marks: list[tuple[int, float]] = []
    history = simulate(
        task,
        world,
        strategy,
        rounds=rounds,
        seeds=num_seeds,
        local=local,
        facts=facts,
        evaluate_every=max(1, rounds // 30),
        metrics=[TEST_ACCURACY],
        segment=max(1, rounds // SEGMENTS),
        progress=lambda done, _: marks.append((done, time.perf_counter())),
    )
    (first, begun), (last, ended) = marks[0], marks[-1]
    return history, (ended - begun) / max(1, last - first) / num_seeds


def _curves(label: str, history: History, seconds: float) -> list[Curve]:
    num_clients = history.clients["available"].shape[1]
    uploads = history.records["uploads"].mean(axis=1, keepdims=True)
    numbers = {"seconds_a_round": seconds, "peak_memory_gib": peak_memory()}
    at = np.array([num_clients])
    return [
        Curve("", label, TEST_ACCURACY, history.evaluated, history.seeds, history.metrics[TEST_ACCURACY]),
        Curve("", label, "uploads_a_round", at, history.seeds, uploads),
        *(Curve("", label, name, at, (0,), np.array([[number]])) for name, number in numbers.items()),
    ]


def peak_memory() -> float:
    """Peak memory so far, in GiB: of the device if it reports it, else of the process."""
    statistics = jax.devices()[0].memory_stats()
    if statistics and "peak_bytes_in_use" in statistics:
        return statistics["peak_bytes_in_use"] / 2**30
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
