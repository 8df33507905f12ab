import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.theory import (
    effective_importance_sampling,
    effective_normalised,
    effective_raw,
    normalised_round_weights,
    normalised_round_weights_of_law,
)

clients = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12])),
        st.one_of(st.floats(0, 10), st.sampled_from([0.0, 1.0, 1e-9, 1e9])),
    ),
    min_size=1,
    max_size=8,
)


def all_sets(rates):
    masks = np.array(list(itertools.product([False, True], repeat=len(rates))))
    return masks, np.where(masks, rates, 1 - np.asarray(rates)).prod(axis=1)


@settings(max_examples=80, deadline=None)
@given(clients)
def test_the_integral_agrees_with_enumeration(pairs):
    rates, weights = np.array(pairs).T
    found = normalised_round_weights(rates, weights)
    assert found == pytest.approx(normalised_round_weights_of_law(*all_sets(rates), weights), rel=1e-10, abs=1e-13)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_equal_weights_by_the_poisson_binomial_law(rates):
    expected = []
    for k, rate in enumerate(rates):
        law = np.ones(1)  # of the number of others
        for other in rates[:k] + rates[k + 1 :]:
            law = np.append(law * (1 - other), 0) + np.append(0, law * other)
        expected.append(rate * (law / np.arange(1, law.size + 1)).sum())
    assert normalised_round_weights(rates, np.full(len(rates), 7.0)) == pytest.approx(expected, rel=1e-11, abs=1e-14)


def test_a_hundred_thousand_clients():
    generator = np.random.default_rng(0)
    rates, weights = generator.uniform(size=10**5), np.exp(generator.standard_normal(10**5))
    found = normalised_round_weights(rates, weights)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    # Many independent clients: the round's sum is nearly constant, E_k ≈ q_k π_k / Σ q π.
    assert found / found.sum() == pytest.approx(effective_raw(rates, weights), rel=1e-3)


def test_the_sum_is_the_chance_that_anyone_is_there():
    rates = np.full(1000, 1e-5)
    assert normalised_round_weights(rates, np.arange(1, 1001)).sum() == pytest.approx(1 - (1 - 1e-5) ** 1000, rel=1e-12)


def test_who_never_comes_or_has_no_weight_gets_nothing():
    found = normalised_round_weights([0.0, 1.0, 0.5, 1.0], [1.0, 0.0, 1.0, 1.0])
    assert found == pytest.approx([0, 0, 0.25, 0.75], abs=1e-15)
    assert not normalised_round_weights([0.0, 0.0], [1.0, 1.0]).any()


def test_unequal_availability_is_less_visible_when_normalised():
    """Two clients, π = (1, ½), equal weights: raw (2/3, 1/3); normalised (3/4, 1/4)."""
    assert effective_raw([1, 0.5], [1, 1]) == pytest.approx([2 / 3, 1 / 3])
    assert effective_normalised([1, 0.5], [1, 1]) == pytest.approx([0.75, 0.25])
    assert effective_normalised([1, 0.5], [1, 1], reach=[1, 3]) == pytest.approx([0.5, 0.5])


def test_a_law_with_dependence():
    """Two clients that are never there together: each round's weight is 1, whatever the weights."""
    masks = np.array([[True, False], [False, True], [False, False]])
    assert normalised_round_weights_of_law(masks, [0.3, 0.5, 0.2], [1, 9]) == pytest.approx([0.3, 0.5])


def test_products_by_hand():
    target, failure, reach = [1, 1, 2], [0, 0.5, 0.5], [2, 4, 1]
    assert effective_importance_sampling(target, failure, reach) == pytest.approx([0.4, 0.4, 0.2])
    assert effective_importance_sampling(target, failure) == pytest.approx([0.4, 0.2, 0.4])
    assert effective_raw([0.5, 1, 1], [2, 1, 1], reach) == pytest.approx([2 / 7, 4 / 7, 1 / 7])


@pytest.mark.parametrize("draws", [1, 4])
def test_importance_sampling_and_fedacs_against_masks_alone(draws):
    generator = np.random.default_rng(draws)
    target, failure, reach = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.5, 0.7]), np.array([1.0, 5.0, 2.0])

    def played(odds):
        drawn = generator.choice(3, size=(200_000 // draws, draws), p=odds / odds.sum())
        arrived = generator.uniform(size=drawn.shape) >= failure[drawn]
        return np.bincount(drawn[arrived], minlength=3) * reach

    for odds, exact in (
        (target, effective_importance_sampling(target, failure, reach)),
        (target / ((1 - failure) * reach), target),
    ):
        counts = played(odds)
        assert counts / counts.sum() == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: normalised_round_weights([0.5, 1.5], [1, 1]), "client 1 has rates = 1.5: must lie between 0 and 1"),
        (lambda: normalised_round_weights([0.5], [1, 1]), "weights has 2 values for 1 clients"),
        (lambda: effective_raw([0, 0], [1, 1]), "all values are 0"),
        (lambda: normalised_round_weights_of_law(np.ones((2, 2)), [1.0], [1, 1]), "one row for each"),
        (lambda: normalised_round_weights_of_law(np.ones((1, 2)), [0.5], [1, 1]), "must add up to 1"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
