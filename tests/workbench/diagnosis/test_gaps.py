"""A rest between participations is told from rare participation, and its odds are recovered."""

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.availability import inclusion_probabilities, minimum_separation
from turnout.workbench.diagnosis.findings.rests import _log_chance, gaps, odds
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.likeness import play


@pytest.mark.parametrize(("slots", "times", "separation"), [(8, 3, 1), (9, 2, 4), (10, 3, 2), (7, 1, 3)])
def test_chance_of_no_short_gap_by_counting(slots, times, separation):
    orders = itertools.combinations(range(slots), times)
    kept = sum(all(b - a > separation for a, b in itertools.pairwise(order)) for order in orders)
    found = _log_chance(np.array([float(times)]), np.array([float(slots)]), separation)
    assert np.exp(found[0]) == pytest.approx(kept / comb(slots, times))


def test_a_separation_is_found_and_its_batch():
    found = gaps(Log.from_matrix(play(minimum_separation(20, tail=1.0, batch=3, separation=4), 400, 0)))
    assert (found.separation, found.batch, found.shortest) == (4, 3, 5)
    assert found.log_p_value < -100


def test_rare_participation_is_no_separation():
    log = Log.from_matrix(np.random.default_rng(0).random((50, 400)) < 0.004)
    found = gaps(log)
    assert found.separation == 0
    assert found.batch is None
    assert found.log_p_value <= 0


def test_gaps_count_within_watched_stretches():
    present = np.array([[1, 0, 0, 0, 1, 1, 0, 0, 0, 1]], bool)
    watched = np.array([[1, 1, 1, 1, 1, 0, 0, 0, 0, 1]], bool)
    assert gaps(Log.from_matrix(present, watched=watched)).shortest == 4


def test_nobody_comes_twice():
    found = gaps(Log.from_matrix(np.eye(5, dtype=bool)))
    assert found.shortest is None
    assert found.batch == 1
    assert not found.separated


@given(st.lists(st.floats(0.01, 10), min_size=5, max_size=12), st.integers(1, 2), st.integers(0, 1))
def test_odds_invert_the_rates(weights, batch, separation):
    p = np.array(weights) / np.sum(weights)
    rate = inclusion_probabilities(p, batch * (separation + 1)) / (separation + 1)
    if (rate * (separation + 1)).max() > 0.999:
        return
    np.testing.assert_allclose(odds(rate, batch, separation), p, rtol=1e-4, atol=1e-8)


def test_odds_of_a_full_rotation_are_equal():
    assert np.allclose(odds(np.full(6, 1 / 6), 2, 2), 1 / 6)
