"""FedLaAvg's error at a fixed number of rounds, on one non-convex problem dealt to more and more clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from turnout.availability import bounded_absence
from turnout.metrics import TRAIN_LOSS
from turnout.simulator import simulate
from turnout.simulator.local_training import Local
from turnout.strategies import FedLaAvg
from turnout.tasks.arrays import from_pool
from turnout.tasks.base import target_mean
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TRAIN
from turnout.tasks.models.model import linear
from turnout.theory import fedlaavg_learning_rate
from turnout.types import Params
from turnout.workbench.reproduction.measures import Curve
from turnout.world import World

SMOOTHNESS = 1.0  # L: a sample curves by at most ‖a‖² in its own direction, and features have variance 1
METRIC = "squared_gradient"


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
            FedLaAvg(cohort=cohort),
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
