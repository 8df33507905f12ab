"""Simulation meets theory: what an ergodic process says of itself is what it does."""

import numpy as np
import pytest

from turnout.availability import Cyclic


def test_rates_are_the_stationary_law(ergodic, played, agree):
    agree(played(ergodic)[:, :120].mean(axis=1), ergodic.stationary())


def test_correlation_is_the_lag_one_autocorrelation(ergodic, played, agree):
    masks = played(ergodic)
    pi, lam = (np.asarray(x, np.float64) for x in (ergodic.stationary(), ergodic.correlation()))
    together = (masks[:, 1:] & masks[:, :-1]).mean(axis=1)
    agree(together, pi**2 + lam * pi * (1 - pi))


@pytest.mark.parametrize("t", [0, 1])
def test_the_first_rounds_are_stationary_already(ergodic, played, agree, t):
    if isinstance(ergodic, Cyclic):
        pytest.skip("follows the clock: only its average over a period is stationary")
    agree(played(ergodic)[:, t], ergodic.stationary())
