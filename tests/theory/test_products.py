import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnout.availability import finite_chain, markov
from turnout.theory import (
    client_chains,
    mixing_time,
    product_chain,
    product_masks,
    product_mixing_bounds,
    stationary_law,
)


@st.composite
def fleets(draw):
    pi = np.array(draw(st.lists(st.floats(0.1, 0.9), min_size=1, max_size=5)))
    lowest = np.maximum(1 - 1 / pi, 1 - 1 / (1 - pi))
    place = np.array(draw(st.lists(st.floats(0.05, 0.95), min_size=len(pi), max_size=len(pi))))
    return pi, lowest + place * (1 - lowest)


@settings(max_examples=40, deadline=None)
@given(fleets())
def test_the_second_eigenvalue_is_the_largest_of_the_clients(fleet):
    pi, lam = fleet
    clients = client_chains(pi, lam)
    moduli = np.sort(np.abs(np.linalg.eigvals(product_chain(clients))))[::-1]
    assert moduli[1] == pytest.approx(np.abs(lam).max(), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(fleets())
def test_law_and_masks_fit_the_chain(fleet):
    pi, lam = fleet
    clients = client_chains(pi, lam)
    law, masks = stationary_law(product_chain(clients)), product_masks(len(pi))
    assert law @ masks == pytest.approx(pi, abs=1e-12)
    one = product_chain(clients)[int("1" * len(pi), 2)] @ masks  # all on: each stays with its own probability
    assert one == pytest.approx([matrix[1, 1] for matrix in clients], abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(fleets(), st.floats(0.02, 0.8))
@example((np.array([0.625, 0.625, 0.375, 0.125, 0.3125]), np.array([-0.5, -0.5, -0.5, 2 / 7, -4 / 11])), 0.625)
def test_mixing_lies_between_the_bounds(fleet, error):
    pi, lam = fleet
    lower, upper = product_mixing_bounds(pi, lam, error)
    joint, rounding = product_chain(client_chains(pi, lam)), 1e-9  # a distance may equal the error
    assert lower <= mixing_time(joint, error * (1 - rounding))
    assert mixing_time(joint, error * (1 + rounding)) <= upper


def test_bounds_are_tight_for_large_fleets():
    lower, upper = product_mixing_bounds(np.full(10**4, 0.5), 0.9)
    # Both grow like ½ log N / log(1/λ) = 43.7 rounds.
    assert 39 < lower <= upper < 53
    assert product_mixing_bounds(0.5, 0.9) == (7, 7)
    assert product_mixing_bounds([1.0, 1.0], 0.0) == (0, 0)


def test_a_finite_chain_of_independent_clients_is_a_markov_fleet():
    pi, lam = [0.3, 0.6, 0.5], [0.5, -0.2, 0.0]
    chain = finite_chain(3, product_chain(client_chains(pi, lam)).tolist(), product_masks(3).astype(int).tolist())
    fleet = markov(3, pi=pi, lam=lam)
    assert np.allclose(chain.stationary(), fleet.stationary(), atol=1e-6)
    assert np.allclose(chain.correlation(), fleet.correlation(), atol=1e-6)


def test_fleets_may_come_in_any_shape():
    square, memory = [[0.5, 0.2], [0.3, 0.4]], [[0.1, 0.2], [0.3, 0.4]]
    flat = [0.5, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]
    assert product_mixing_bounds(square, memory) == product_mixing_bounds(*flat)
    np.testing.assert_array_equal(client_chains(square, memory), client_chains(*flat))
    np.testing.assert_array_equal(product_chain(np.array(client_chains(*flat))), product_chain(client_chains(*flat)))


def test_refuses():
    with pytest.raises(ValueError, match="transitions is empty"):
        product_chain([])
    with pytest.raises(ValueError, match="14 chains together have 16384 states: at most 8192"):
        product_chain(client_chains(np.full(14, 0.5), 0.5))
    with pytest.raises(ValueError, match="client 1 has lam = -1: must be above -1"):
        product_mixing_bounds([1.0, 0.5], [0.0, -1.0])
    with pytest.raises(ValueError, match="40 on/off clients together have"):
        product_masks(40)
    with pytest.raises(ValueError, match="error must be a number above 0 and below 1"):
        product_mixing_bounds(0.5, 0.5, 0.0)
