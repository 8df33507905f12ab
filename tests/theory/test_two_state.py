import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.theory import (
    client_chains,
    effective_rounds,
    mean_off_run,
    mean_on_run,
    mixing_time,
    product_mixing_bounds,
    return_law,
    second_eigenvalue,
    stationary_law,
    variance_of_mean,
    wake_and_sleep,
)


@st.composite
def clients(draw):
    pi = draw(st.floats(0.02, 0.98))
    lowest = max(1 - 1 / pi, 1 - 1 / (1 - pi))
    return pi, draw(st.floats(lowest * 0.999, 0.98))


@given(clients())
def test_the_chain_has_this_rate_and_this_eigenvalue(client):
    pi, lam = client
    (matrix,) = client_chains(pi, lam)
    assert stationary_law(matrix)[1] == pytest.approx(pi, abs=1e-12)
    assert second_eigenvalue(matrix) == pytest.approx(abs(lam), abs=1e-9)
    power = np.linalg.matrix_power(matrix, 5)
    assert (power[1, 1] - pi) / (1 - pi) == pytest.approx(lam**5, abs=1e-9)


@given(clients(), st.integers(1, 60))
def test_variance_of_the_mean_is_the_sum_of_all_covariances(client, rounds):
    pi, lam = client
    lags = np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
    expected = pi * (1 - pi) * (lam**lags).sum() / rounds**2
    assert variance_of_mean(pi, lam, rounds) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert effective_rounds(lam, rounds) == pytest.approx(rounds**2 / (lam**lags).sum(), rel=1e-8)


@pytest.mark.parametrize("rounds", [1, 2, 7, 1000, 10**9])
def test_variance_in_closed_form(rounds):
    pi, lam = 0.3, 0.9
    bracket = rounds * (1 + lam) / (1 - lam) - 2 * lam * (1 - lam**rounds) / (1 - lam) ** 2
    assert variance_of_mean(pi, lam, rounds) == pytest.approx(pi * (1 - pi) * bracket / rounds**2, rel=1e-11)


def test_variance_keeps_its_digits_near_one():
    # 1 - T(1 - λ)/3 to first order; the closed form would lose ten digits.
    assert variance_of_mean(0.5, 1 - 1e-12, 1000) == pytest.approx(0.25 * (1 - 1e-12 * 1000 / 3), rel=1e-15)


def test_the_long_run():
    assert 10**7 / effective_rounds(0.9, 10**7) == pytest.approx(19, rel=1e-5)
    assert effective_rounds(0.0, 12) == 12
    assert effective_rounds(-1.0, 12) == np.inf  # strict alternation: the mean is known
    assert effective_rounds(-1.0, 3) == 9


@given(clients())
def test_runs_are_returns(client):
    pi, lam = client
    assert mean_on_run(pi, lam) == pytest.approx(1 / ((1 - lam) * (1 - pi)))
    # The mean gap between two rounds on is one over π: 1 if it stays, else an off-run more.
    _, sleep = wake_and_sleep(pi, lam)
    assert 1 + sleep * mean_off_run(pi, lam) == pytest.approx(1 / pi)
    law = return_law(client_chains(pi, lam)[0], np.array([False, True]), 2)
    wake, _ = wake_and_sleep(pi, lam)
    assert law == pytest.approx([1 - sleep, sleep * wake], abs=1e-12)


@given(clients(), st.floats(0.01, 0.9))
def test_mixing_time_is_that_of_the_chain(client, error):
    pi, lam = client
    worst = abs(lam) ** np.arange(2000) * max(pi, 1 - pi)
    if np.abs(worst - error).min() > 1e-12 and abs(lam) > 1e-9:
        exact = mixing_time(client_chains(pi, lam)[0], error)
        assert product_mixing_bounds(pi, lam, error) == (exact, exact)


def test_one_number_goes_with_many():
    assert variance_of_mean([0.2, 0.5], 0.5, 10).shape == (2,)
    wake, sleep = wake_and_sleep(np.array([[0.2], [0.5]]), [0.0, 0.5, 0.9])
    assert wake.shape == sleep.shape == (2, 3)
    assert mean_on_run([0.5, 1.0], [0.5, 0.0]).tolist() == [4.0, math.inf]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: wake_and_sleep(0.9, -0.5),
            r"client 0 has lam = -0.5 with pi = 0.9, where lam must lie in \[-0.1111, 1\)",
        ),
        (lambda: mean_on_run([0.5, 0.0], 0.0), "client 1 has pi = 0"),
        (lambda: effective_rounds(1.0, 5), r"client 0 has lam = 1: must lie in \[-1, 1\)"),
        (lambda: product_mixing_bounds([0.5, 0.2], [0.5] * 3), r"pi has shape \(2,\), but lam \(3,\)"),
        (lambda: effective_rounds(0.5, 0), "rounds must be a whole number from 1 to 2³¹ - 1, not 0"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
