"""The procedures on FedLaAvg, in small."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from turnout.workbench.reproduction.procedures.fedlaavg import METRIC, _problem, alternating_pair, speedup, staleness


def test_fedavg_stays_at_its_limit_and_fedlaavg_does_not():
    found = alternating_pair(rates=(0.1, 0.3), periods=40, horizons=(160,))
    curves = {(curve.label, curve.metric): curve.values[0] for curve in found}
    assert curves["FedAvg", "off_limit"].max() < 1e-5
    np.testing.assert_allclose(curves["FedAvg", "distance"], curves["formula", "distance"], rtol=1e-5)
    assert 0.2 < curves["FedLaAvg", "share_of_bound"][0] <= 1
    assert curves["FedLaAvg", "squared_distance"][0] < 2
    assert curves["FedAvg", "squared_distance"][0] > 5


def test_the_bound_on_staleness_is_met_and_kept():
    random, sparse = staleness(fleets=(5,), worlds=6, longest_absence=3, seeds=2, rounds=60)
    assert random.values.shape == (2, 6)
    assert 0.2 < random.values.max() <= 1
    np.testing.assert_array_equal(sparse.values, 1)


def test_the_problem_is_the_same_for_any_number_of_clients():
    few, many = (_problem(n, samples=48, dimension=3) for n in (4, 16))
    assert (few.num_clients, many.num_clients) == (4, 16)
    start = {"weight": jnp.zeros((1, 3))}
    first, second = (eqx.filter_jit(task.evaluate)(start) for task in (few, many))
    assert float(first["train_loss"]) == pytest.approx(float(second["train_loss"]), rel=1e-5)
    assert float(first[METRIC]) == pytest.approx(float(second[METRIC]), rel=1e-4)
    assert float(first[METRIC]) > 0


@pytest.mark.slow
def test_more_clients_less_error():
    (curve,) = speedup(fleets=(5, 20), rounds=500, seeds=2, samples=100, dimension=3)
    assert (curve.values[:, 1] < curve.values[:, 0]).all()
