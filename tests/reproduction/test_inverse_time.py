"""The falling rate of the claims on debiased FedAvg."""

import jax
import pytest

from turnout.reproduction.procedures.inverse_time import inverse_time


def test_it_falls_to_a_half_in_the_round_that_says_so():
    rate = inverse_time(0.6, half=20.0)
    assert [float(rate(t)) for t in (0, 20, 40)] == pytest.approx([0.6, 0.3, 0.2])


def test_it_turns_the_papers_steps_into_those_of_the_public_code():
    """The notebook's step is lr T / n at the n-th visit; the paper's scale is (t + 1) / (n M), with M groups."""
    rate, visit, horizon, groups = 2e-3, 3, 500, 20
    schedule = inverse_time(rate * horizon * groups)
    for t in (2, 40, 499):
        assert float(schedule(t)) * (t + 1) / (visit * groups) == pytest.approx(rate * horizon / visit)


def test_its_numbers_are_leaves_so_that_a_grid_is_one_program():
    assert jax.tree.leaves(inverse_time(1.0, half=4.0)) == [1.0, 4.0]
