"""A short run whose numbers are stored: a change that moves them is a change of results, and must say so."""

import numpy as np

import turnout
from turnout import availability, compute, links, strategies, tasks

UNBIASED = [[1.386295, 1.365322, 1.307326], [1.386295, 1.325172, 1.265008]]
FEDAVG = [[1.386295, 1.398066, 1.426983], [1.386295, 1.390171, 1.360432]]


def short_run(strategy, **options):
    task = tasks.synthetic_leaf(num_clients=12, num_features=8, num_classes=4, samples_per_client=50, seed=3)
    world = turnout.World(availability.two_classes(12), links.bernoulli(12, 0.9), compute.per_client(12, [1, 2, 3] * 4))
    local = turnout.Local(learning_rate=0.05, batch_size=10)
    return turnout.simulate(task, world, strategy, rounds=20, seeds=2, local=local, evaluate_every=10, **options)


def test_unbiased_with_estimates():
    run = short_run(strategies.Unbiased(), facts=turnout.Online())
    np.testing.assert_allclose(run.metrics["train_loss"], UNBIASED, rtol=1e-4)


def test_a_sampled_fedavg():
    run = short_run(strategies.FedAvg(cohort=3))
    np.testing.assert_allclose(run.metrics["train_loss"], FEDAVG, rtol=1e-4)
