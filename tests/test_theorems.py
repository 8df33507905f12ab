"""Exact results that the simulator must meet: fixed points, limits, autocorrelations."""

import jax.numpy as jnp
import numpy as np
import pytest

from turnout.availability import alternating, bernoulli, markov, minimum_separation, two_classes
from turnout.simulator import simulate, simulate_trials
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.strategies import FedAvg, MoreAvailable, Unbiased
from turnout.tasks.quadratics import Quadratics, quadratics
from turnout.tasks.two_clients import two_clients
from turnout.world import World, compute, links


def settled(task, scene, strategy, *, rounds, rate, seeds=16):
    """Mean model of the second half of a run, averaged over seeds, with its standard error."""
    run = simulate(task, scene, strategy, rounds=rounds, seeds=seeds, local=Local(learning_rate=rate, batch_size=1))
    ends = np.asarray(run.params, np.float64)
    return ends.mean(axis=0), ends.std(axis=0, ddof=1) / np.sqrt(seeds)


def assert_within(found, error, wanted, other=None):
    """Found within five standard errors of what is predicted, and far from the rival value."""
    assert np.abs(found - wanted).max() <= 5 * error.max() + 1e-4
    if other is not None:
        assert np.abs(found - other).max() > 10 * error.max()


def test_fixed_point_of_fedavg_with_links_and_steps():
    """Weng et al. 2025, equation 39: the limit weighs clients by ω (1 - q) (1 - (1 - η)^T)."""
    count, rate = 5, 0.05
    task = quadratics(num_clients=count, dimension=3, seed=4)
    success, steps = np.linspace(0.3, 0.95, count), np.array([9, 1, 4, 2, 6])
    scene = World(
        bernoulli(count, 1.0), links.bernoulli(count, success.tolist()), compute.per_client(count, steps.tolist())
    )
    weights = success * (1 - (1 - rate) ** steps)
    predicted = weights @ np.asarray(task.centres) / weights.sum()
    found, error = settled(task, scene, FedAvg(cohort=3, normaliser="draws"), rounds=400, rate=rate, seeds=256)
    assert_within(found, error, predicted, other=np.asarray(task.optimum))


def test_fixed_point_with_general_curvature():
    """(Σ ω (1 - q) K_m H_m)⁻¹ Σ ω (1 - q) K_m H_m E_m, where K_m H_m = I - (I - η H_m)^T."""
    count, rate = 4, 0.1
    task = quadratics(num_clients=count, dimension=2, condition=5.0, seed=1)
    success, steps = np.array([0.4, 0.9, 0.7, 1.0]), np.array([5, 1, 3, 2])
    scene = World(
        bernoulli(count, 1.0), links.bernoulli(count, success.tolist()), compute.per_client(count, steps.tolist())
    )
    pulls = [
        share * (np.eye(2) - np.linalg.matrix_power(np.eye(2) - rate * bend, int(n)))
        for share, bend, n in zip(success, np.asarray(task.curvature, np.float64), steps, strict=True)
    ]
    centres = np.asarray(task.centres, np.float64)
    predicted = np.linalg.solve(sum(pulls), sum(pull @ e for pull, e in zip(pulls, centres, strict=True)))
    found, error = settled(task, scene, FedAvg(normaliser="all"), rounds=300, rate=rate, seeds=256)
    assert_within(found, error, predicted, other=np.asarray(task.optimum))


@pytest.mark.parametrize(("t1", "t2"), [(1, 1), (3, 1), (2, 5)])
def test_two_alternating_clients(t1, t2):
    """Yan et al. 2020, example 1: the end of a period tends to a point that is not the optimum."""
    e1, e2, gamma = 0.0, 10.0, 0.1
    task = two_clients(first=e1, second=e2)
    scene = World(alternating(2, t1, t2), compute=1)
    period = t1 + t2
    run = simulate(task, scene, FedAvg(), rounds=40 * period, local=Local(learning_rate=gamma, batch_size=1))
    shrink = 1 - 2 * gamma
    limit = (shrink**t2 * (e1 - e2) + e2 - e1 * shrink**period) / (1 - shrink**period)
    assert float(run.params[0, 0]) == pytest.approx(limit, rel=1e-4)


def test_small_steps_of_alternating_clients_reach_the_time_average():
    task, scene = two_clients(first=0.0, second=10.0), World(alternating(2, 3, 1), compute=1)
    run = simulate(task, scene, FedAvg(), rounds=8000, local=Local(learning_rate=0.001, batch_size=1))
    assert float(run.params[0, 0]) == pytest.approx(2.5, abs=0.05)


def test_three_clients_under_minimum_separation():
    """Sun et al. 2025, proposition 3: plain FedAvg tends to 2.1 on average, while the optimum is 2."""
    task = Quadratics.of([[1.0], [2.0], [3.0]], start=[2.0])
    scene = World(minimum_separation(3, [0.25, 0.25, 0.5], separation=1), compute=1)
    found, error = settled(task, scene, FedAvg(), rounds=1500, rate=0.02, seeds=256)
    assert_within(found, error, np.array([2.1]), other=np.array([2.0]))


def test_unbiased_reaches_the_optimum_where_fedavg_does_not():
    count = 6
    task = quadratics(num_clients=count, dimension=2, seed=2)
    pi = np.linspace(0.15, 0.9, count)
    scene = World(markov(count, pi=pi.tolist(), lam=0.5), compute=1)
    optimum = np.asarray(task.optimum)
    fair, error = settled(task, scene, Unbiased(), rounds=1500, rate=0.02, seeds=256)
    assert_within(fair, error, optimum)
    biased, error = settled(task, scene, FedAvg(normaliser="all"), rounds=1500, rate=0.02, seeds=256)
    assert_within(biased, error, np.asarray(task.minimiser(jnp.asarray(pi, jnp.float32))), other=optimum)


def test_more_available_lands_on_the_optimum_of_the_class_it_keeps():
    count = 4
    task = quadratics(num_clients=count, dimension=2, seed=3)
    scene = World(two_classes(count, mean=0.5, gap=0.3), compute=1)
    kept = np.asarray(scene.law().pi) >= 0.5
    assert kept.sum() == 2
    found, error = settled(task, scene, MoreAvailable(), rounds=1500, rate=0.02, seeds=256)
    assert_within(found, error, np.asarray(task.minimiser(jnp.asarray(kept, jnp.float32))), np.asarray(task.optimum))


def test_the_received_average_has_the_effective_weights_of_enumerated_masks():
    """E[α 1 / Σ α 1] over all masks of three independent clients."""
    pi = np.array([0.2, 0.5, 0.9])
    masks = (np.arange(8)[:, None] >> np.arange(3)) & 1
    chance = np.prod(np.where(masks, pi, 1 - pi), axis=1)
    weights = (chance[:, None] * masks / np.maximum(masks.sum(axis=1, keepdims=True), 1)).sum(axis=0)
    task = quadratics(num_clients=3, dimension=2, seed=6)
    run = simulate(task, World(bernoulli(3, pi.tolist()), compute=1), FedAvg(), rounds=2000, seeds=16)
    share = run.clients["weight"].mean(axis=0) / 2000
    np.testing.assert_allclose(share, weights, atol=0.01)


def test_uploads_lost_or_not_one_grid_of_seeds_and_rates_agrees():
    """The fixed point moves with η as predicted, for a whole grid in one program."""
    task = quadratics(num_clients=2, dimension=1, centres=[[0.0], [1.0]])
    steps = np.array([8, 1])
    scene = World(bernoulli(2, 1.0), compute=compute.per_client(2, steps.tolist()))
    rates = [0.02, 0.1, 0.3]
    trials = [Trial(FedAvg(), scene, Local(learning_rate=rate, batch_size=1)) for rate in rates]
    for rate, run in zip(rates, simulate_trials(task, trials, rounds=800), strict=True):
        pull = 1 - (1 - rate) ** steps
        assert float(run.params[0, 0]) == pytest.approx(pull[1] / pull.sum(), rel=1e-3)
