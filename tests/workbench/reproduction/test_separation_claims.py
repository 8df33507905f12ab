"""The procedures on minimum separation, for fleets that can be checked by hand."""

import numpy as np
import pytest

from turnout.workbench.reproduction.procedures.separation import separation_bias, separation_mixing


def test_bias_begins_with_the_weights_and_ends_at_none():
    (curve,) = separation_bias(num_clients=6, seeds=2)
    weights = 1 - np.random.default_rng(1).random(6)
    np.testing.assert_array_equal(curve.x, range(6))
    assert curve.values[1, 0] == pytest.approx(np.abs(weights / weights.sum() - 1 / 6).sum())
    assert (np.diff(curve.values) < 0).all()
    np.testing.assert_allclose(curve.values[:, -1], 0, atol=1e-14)


@pytest.fixture(scope="module")
def mixing():
    found = separation_mixing(
        num_clients=4, separations=(0, 3), rounds=400, seeds=2, small_fleet=4, small_separations=(0, 1), small_rounds=5
    )
    return {(curve.panel, curve.label): curve for curve in found}


def test_frequencies_of_a_rotation_are_exact_after_each_turn(mixing):
    rotation = mixing["frequencies", "R = 3"]
    np.testing.assert_allclose(rotation.values[:, rotation.x % 4 == 0], 0, atol=1e-6)
    free = mixing["frequencies", "R = 0"].values
    assert 0 < free[:, -1].max() < 0.15 < free[:, 0].min()


def test_draws_without_rest_have_nothing_to_forget(mixing):
    np.testing.assert_allclose(mixing["chain", "R = 0"].values, 0, atol=1e-12)
    resting = mixing["chain", "R = 1"].values
    assert (resting > 0).all()
    assert (np.diff(resting) < 0).all()
