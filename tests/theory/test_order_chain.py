import itertools

import numpy as np
import pytest

from turnout.theory import (
    gap_law,
    minimum_separation,
    order_chain,
    participation_law,
    period,
    second_eigenvalue,
    stationary_law,
)


def weights(n):
    return np.random.default_rng(n).dirichlet(np.ones(n)) + 1e-3


def test_states_are_the_windows_of_disjoint_batches():
    chain = order_chain(weights(5), 2, 1)
    assert sorted(chain.windows) == [(pair,) for pair in itertools.combinations(range(5), 2)]
    assert (chain.masks.sum(axis=1) == 2).all()
    for state, row in enumerate(chain.transition.toarray()):
        for after in np.flatnonzero(row):
            assert not (chain.masks[state] & chain.masks[after]).any()


@pytest.mark.parametrize(("n", "batch", "separation"), [(4, 1, 2), (5, 2, 1), (6, 2, 1), (7, 2, 2)])
def test_windows_have_the_product_form(n, batch, separation):
    p = weights(n)
    chain = order_chain(p, batch, separation)
    product = []
    for window in chain.windows:
        used = list(itertools.chain(*window))
        rested = np.delete(p, used)
        fits = sum(np.prod(c) for c in itertools.combinations(rested, batch))  # e_B of who is rested
        product.append(np.prod(p[used]) * fits)
    assert stationary_law(chain.transition) == pytest.approx(np.array(product) / sum(product), rel=1e-11)


@pytest.mark.parametrize(
    ("n", "batch", "separation"), [(3, 1, 1), (5, 1, 3), (5, 2, 1), (7, 2, 2), (7, 3, 1), (4, 3, 0)]
)
def test_with_a_spare_client_the_chain_is_ergodic(n, batch, separation):
    chain = order_chain(weights(n), batch, separation)
    assert period(chain.transition) == 1
    assert second_eigenvalue(chain.transition) < 1


def test_without_separation_nothing_is_remembered():
    chain = order_chain(weights(5), 2, 0)
    assert second_eigenvalue(chain.transition) == pytest.approx(0, abs=1e-12)


def test_single_draws_agree_however_they_are_sampled():
    p = weights(5)
    product, successive = (
        order_chain(p, 1, 2, sampling).transition.toarray() for sampling in ("product", "successive")
    )
    assert np.abs(product - successive).max() < 1e-15


def test_successive_pairs_by_hand():
    p = np.array([0.1, 0.2, 0.3, 0.4])
    row = order_chain(p, 2, 0, "successive").transition.toarray()[0]
    pairs = itertools.combinations(range(4), 2)
    assert row == pytest.approx([p[i] * p[j] * (1 / (1 - p[i]) + 1 / (1 - p[j])) for i, j in pairs])


def test_successive_pairs_have_another_law():
    p = weights(6)
    found = participation_law(order_chain(p, 2, 1, "successive"))
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - minimum_separation(p, 2, 1)).max() > 1e-3


def test_gaps_against_a_simulation():
    p, random = np.array([0.1, 0.2, 0.3, 0.4]), np.random.default_rng(0)
    wait, last, gaps = np.zeros(4, dtype=int), None, []
    for t, draw in enumerate(random.random(40_000)):
        odds = np.cumsum(np.where(wait == 0, p, 0.0))
        client = int(np.searchsorted(odds, draw * odds[-1], side="right"))
        wait = np.maximum(wait - 1, 0)
        wait[client] = 1
        if client == 3:
            gaps.append(t - (t if last is None else last))
            last = t
    counts = np.bincount(gaps[1:], minlength=6)[1:6] / (len(gaps) - 1)
    expected = gap_law(order_chain(p, 1, 1), 3, 5)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(0.25 / len(gaps))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: order_chain(np.ones(12), 1, 7), "make 3991680 states: at most 200000 can be listed"),
        (lambda: order_chain(np.ones(4), 2, 2), "separation = 2 with batch = 2 and 4 clients"),
        (lambda: gap_law(order_chain(np.ones(3), 1, 1), 3, 5), "client = 3: the chain has clients 0 to 2"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
