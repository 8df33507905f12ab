"""How old FedLaAvg's gradients become in random worlds where no client is away for long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from turnout.availability import bounded_absence, cyclic
from turnout.metrics import DISTANCE
from turnout.simulator import simulate_trials
from turnout.simulator.local_training import Local
from turnout.simulator.trial import Trial
from turnout.strategies import FedLaAvg
from turnout.tasks.quadratics import quadratics
from turnout.theory import longest_staleness
from turnout.workbench.reproduction.measures import Curve
from turnout.world import World

METRIC = "share_of_bound"


def staleness(
    fleets: Sequence[int] = (7, 20, 60), worlds: int = 40, longest_absence: int = 8, seeds: int = 5, rounds: int = 1000
) -> list[Curve]:
    """The longest staleness of any client over ⌈N/K⌉E − 1, world by world, for fleets of several sizes N.

    A random world draws K, E and the chance of each client to come by itself. In the worlds "all at once" everybody is
    there in every E-th round only, for E = 2, 3, …: none is harder.
    """
    random = [_shares_of_bound(n, list(_random_worlds(n, worlds, longest_absence)), seeds, rounds) for n in fleets]
    sparse = [_shares_of_bound(n, list(_sparse_worlds(n, longest_absence)), seeds, rounds) for n in fleets]
    return [_curve("random worlds", random), _curve("all at once", sparse)]


def _curve(label: str, shares: list[np.ndarray]) -> Curve:
    values = np.concatenate(shares, axis=1)
    num_seeds, num_worlds = values.shape
    return Curve("", label, METRIC, np.arange(1, num_worlds + 1), tuple(range(num_seeds)), values)


Drawn = tuple[int, int, World]  # K, E and a world where everybody is available once in any E rounds


def _random_worlds(num_clients: int, count: int, longest_absence: int) -> Iterator[Drawn]:
    draw = np.random.default_rng(num_clients)
    for _ in range(count):
        cohort = int(draw.integers(1, num_clients + 1))
        within = int(draw.integers(2, longest_absence + 1))
        chance = draw.random(num_clients) ** draw.integers(1, 5)  # from mostly there to mostly away
        yield cohort, within, World(bounded_absence(num_clients, chance.tolist(), within), compute=1)


def _sparse_worlds(num_clients: int, longest_absence: int) -> Iterator[Drawn]:
    for within in range(2, longest_absence + 1):
        process = cyclic(num_clients, period=within, offset=within - 1, duration=1)
        yield max(1, num_clients // within), within, World(process, compute=1)


def _shares_of_bound(num_clients: int, worlds: list[Drawn], seeds: int, rounds: int) -> np.ndarray:
    """(seed, world)."""
    task = quadratics(num_clients, dimension=1)
    trials = [Trial(FedLaAvg(cohort=k), world, Local(learning_rate=0.01, batch_size=1)) for k, _, world in worlds]
    runs = simulate_trials(task, trials, rounds=rounds, seeds=seeds, evaluate_every=rounds, metrics=[DISTANCE])
    bounds = np.array([longest_staleness(num_clients, cohort, within) for cohort, within, _ in worlds])
    return np.stack([run.clients["stalest"].max(axis=1) for run in runs], axis=1) / bounds
