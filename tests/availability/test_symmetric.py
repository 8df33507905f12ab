import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.availability import inclusion_probabilities


def by_enumeration(p, n):
    total, included = 0.0, np.zeros(len(p))
    for chosen in itertools.combinations(range(len(p)), n):
        weight = np.prod(p[list(chosen)])
        total += weight
        included[list(chosen)] += weight
    return included / total


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-12, 12), min_size=1, max_size=8), st.data())
def test_agrees_with_enumeration(logs, data):
    n = data.draw(st.integers(0, len(logs)))
    p = np.exp(np.array(logs))
    assert np.abs(inclusion_probabilities(p, n) - by_enumeration(p, n)).max() < 1e-12


def test_two_of_three_by_hand():
    # e_2(¼, ¼, ½) = 5/16; client 0 is in the pairs of weight 1/16 and 2/16.
    assert inclusion_probabilities([0.25, 0.25, 0.5], 2) == pytest.approx([0.6, 0.6, 0.8], abs=1e-15)


def test_a_common_factor_changes_nothing():
    p = np.arange(1, 30) ** -1.5
    assert np.abs(inclusion_probabilities(p, 7) - inclusion_probabilities(1e9 * p, 7)).max() < 1e-14


@pytest.mark.parametrize("tail", [0.0, 1.5, 8.0])
def test_large_fleets_are_exact_and_fast(tail):
    p = np.arange(1, 501) ** -tail
    for n in (1, 2, 10, 250, 499, 500):
        found = inclusion_probabilities(p, n)
        assert found.sum() == pytest.approx(n, rel=1e-12)
        assert (np.diff(found) <= 1e-13).all()  # who has the larger odds is drawn more often


@pytest.mark.parametrize(
    ("p", "n", "message"),
    [([1.0, 1.0], 3, "n = 3: a sample of 2 units"), ([1.0, 0.0], 1, "positive"), ([1.0, np.inf], 1, "finite")],
)
def test_refuses(p, n, message):
    with pytest.raises(ValueError, match=message):
        inclusion_probabilities(p, n)
