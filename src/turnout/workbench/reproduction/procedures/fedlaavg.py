"""What is proved of FedLaAvg, measured: its limit, how old its gradients become, and its speedup by more clients."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.availability import alternating, bounded_absence, cyclic
from turnout.metrics import DISTANCE, TRAIN_LOSS
from turnout.simulator import simulate, simulate_trials
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.strategies import FedAvg, FedLaAvg, Strategy
from turnout.tasks.arrays import from_pool
from turnout.tasks.base import target_mean
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TRAIN
from turnout.tasks.models.model import linear
from turnout.tasks.quadratics import quadratics
from turnout.tasks.two_clients import two_clients
from turnout.theory import alternating_limit, fedlaavg_alternating_bound, fedlaavg_learning_rate, longest_staleness
from turnout.types import Params
from turnout.workbench.reproduction.curve_table import Curve
from turnout.world import World

SMOOTHNESS = 1.0  # L: a sample curves by at most ‖a‖² in its own direction, and features have variance 1
METRIC, OF_BOUND = "squared_gradient", "share_of_bound"


def alternating_pair(
    centres: Sequence[float] = (0.0, 10.0),
    start: float = 0.0,
    stays: Sequence[int] = (3, 1),
    rates: Sequence[float] = (0.003, 0.01, 0.03, 0.1, 0.3),
    periods: int = 1000,
    horizons: Sequence[int] = (100, 400, 1600, 6400),
) -> list[Curve]:
    """Panel "limit": distance to the optimum over the rate γ, of FedAvg after so many periods and of its exact limit.

    Panel "convergence": mean of (x − x*)² over T rounds with γ = 1/(2√T), and the bound on FedLaAvg's. The metrics
    "off_limit" and "share_of_bound" have how far the former is from its formula, as a share of it, and the latter from
    its bound.
    """
    pair: dict[str, Any] = {"centres": (centres[0], centres[1]), "first_stay": stays[0], "second_stay": stays[1]}
    task, world = two_clients(centres[0], centres[1], start), World(alternating(2, stays[0], stays[1]), compute=1)

    def play(strategies: Sequence[Strategy], learning_rates: Sequence[float], rounds: int) -> list[np.ndarray]:
        """The distances to the optimum over the rounds."""
        steps = [Local(learning_rate=rate, batch_size=1) for rate in learning_rates]
        trials = [Trial(strategy, world, local) for strategy in strategies for local in steps]
        runs = simulate_trials(task, trials, rounds=rounds, metrics=[DISTANCE])
        return [run.metrics[DISTANCE][0].astype(np.float64) for run in runs]

    settled = np.array([run[-1] for run in play([FedAvg()], rates, periods * sum(stays))])
    both = [FedAvg(), FedLaAvg(moves_when_empty=True)]
    means = [[np.mean(run[:-1] ** 2) for run in play(both, [_rate(t)], t)] for t in horizons]  # x⁰ … x^{T−1}
    fedavg, fedlaavg = np.array(means).T
    limits = np.array([abs(alternating_limit(learning_rate=rate, **pair) - sum(centres) / 2) for rate in rates])
    bound = functools.partial(fedlaavg_alternating_bound, start=start, **pair)
    bounds = np.array([bound(learning_rate=_rate(t), rounds=t).total for t in horizons])
    return [
        _curve("limit", "FedAvg", DISTANCE, rates, settled),
        _curve("limit", "formula", DISTANCE, rates, limits),
        _curve("limit", "FedAvg", "off_limit", rates, np.abs(settled - limits) / limits),
        _curve("convergence", "FedAvg", "squared_distance", horizons, fedavg),
        _curve("convergence", "FedLaAvg", "squared_distance", horizons, fedlaavg),
        _curve("convergence", "bound", "squared_distance", horizons, bounds),
        _curve("convergence", "FedLaAvg", OF_BOUND, horizons, fedlaavg / bounds),
    ]


def _rate(rounds: int) -> float:
    return 0.5 / rounds**0.5


def _curve(panel: str, label: str, metric: str, x: Sequence[float] | Sequence[int], values: np.ndarray) -> Curve:
    """A curve of one seed, or of so many as there are rows."""
    rows = np.atleast_2d(values).astype(np.float64)
    return Curve(panel, label, metric, np.asarray(x, np.float64), tuple(range(len(rows))), rows)


def staleness(
    fleets: Sequence[int] = (7, 20, 60), worlds: int = 40, longest_absence: int = 8, seeds: int = 5, rounds: int = 1000
) -> list[Curve]:
    """The longest staleness of any client over ⌈N/K⌉E − 1, world by world, for fleets of several sizes N.

    A random world draws K, E and the chance of each client to come by itself. In the worlds "all at once" everybody is
    there in every E-th round only, for E = 2, 3, …: none is harder.
    """
    draws = {
        "random worlds": lambda n: _random_worlds(n, worlds, longest_absence),
        "all at once": lambda n: _sparse_worlds(n, longest_absence),
    }
    curves = []
    for label, draw in draws.items():
        shares = np.concatenate([_shares_of_bound(n, list(draw(n)), seeds, rounds) for n in fleets], axis=1)
        curves.append(_curve("", label, OF_BOUND, range(1, shares.shape[1] + 1), shares))
    return curves


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
    local = Local(learning_rate=0.01, batch_size=1)
    trials = [Trial(FedLaAvg(cohort=k, moves_when_empty=True), world, local) for k, _, world in worlds]
    runs = simulate_trials(task, trials, rounds=rounds, seeds=seeds, evaluate_every=rounds, metrics=[DISTANCE])
    bounds = np.array([longest_staleness(num_clients, cohort, within) for cohort, within, _ in worlds])
    return np.stack([run.clients["stalest"].max(axis=1) for run in runs], axis=1) / bounds


class Observed(DataTask):
    """A task of data that also measures ‖∇f‖², the squared gradient of its objective."""

    def evaluate(self, params: Params) -> dict[str, Float[Array, ""]]:
        gradient = jax.grad(lambda now: target_mean(self.per_client(now)[TRAIN_LOSS], self.importance))(params)
        squares = [jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]
        return super().evaluate(params) | {METRIC: sum(squares, jnp.zeros(()))}


def speedup(
    fleets: Sequence[int] = (10, 40, 160),
    participation: float = 0.2,
    longest_absence: int = 2,
    chance: float = 0.3,
    rounds: int = 20_000,
    seeds: int = 5,
    samples: int = 1600,
    dimension: int = 10,
) -> list[Curve]:
    """Mean of ‖∇f‖² over T rounds for N clients of which K = βN are asked, at the rate that the theorem suggests.

    f is the mean of log(½ (⟨a, x⟩ + b)² + 1) over one set of samples, whatever N is; samples are sorted by their first
    feature before they are dealt, so that clients differ. One step on one sample per round.
    """
    errors = []
    for num_clients in fleets:
        cohort = round(participation * num_clients)
        rate = fedlaavg_learning_rate(
            rounds=rounds,
            num_clients=num_clients,
            cohort=cohort,
            longest_absence=longest_absence,
            smoothness=SMOOTHNESS,
        )
        run = simulate(
            _problem(num_clients, samples, dimension),
            World(bounded_absence(num_clients, chance, longest_absence), compute=1),
            FedLaAvg(cohort=cohort, moves_when_empty=True),
            rounds=rounds,
            seeds=seeds,
            local=Local(learning_rate=rate, batch_size=1),
            evaluate_every=max(1, rounds // 1000),
            metrics=[METRIC],
        )
        errors.append(run.metrics[METRIC].mean(axis=1))
    return [Curve("", "FedLaAvg", METRIC, np.asarray(fleets), tuple(range(seeds)), np.stack(errors, axis=1))]


def _problem(num_clients: int, samples: int, dimension: int) -> Observed:
    draw = np.random.default_rng(0)
    features = draw.standard_normal((samples, dimension))
    features = features[np.argsort(features[:, 0])]
    answers = features @ draw.standard_normal(dimension) + 0.5 * draw.standard_normal(samples)
    task = from_pool(
        features.astype(np.float32),
        answers.astype(np.float32),
        np.arange(samples) * num_clients // samples,
        np.full(samples, TRAIN),
        model=linear(dimension, 1, bias=False),
        loss="log_quadratic",
        importance="size",
    )
    return Observed(**{field.name: getattr(task, field.name) for field in fields(task)})
