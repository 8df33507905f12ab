import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from turnout.availability import minimum_separation as process
from turnout.theory import (
    gap_law,
    mean_gap,
    minimum_separation,
    order_chain,
    participation_law,
    separation_curve,
    shortest_gap,
)

# Every fleet of up to 7 clients whose chain has one stationary law and fewer than 20,000 states.
SMALL = [
    (n, batch, rest)
    for n in range(2, 8)
    for batch in range(1, n)
    for rest in range(n)
    if batch * (rest + 1) < n and math.perm(n, batch * rest) // math.factorial(batch) ** rest < 20_000
]
weights = st.lists(st.floats(-8, 8), min_size=2, max_size=40).map(lambda logs: np.exp(np.array(logs)))


def drawn(n):
    return np.random.default_rng(n).dirichlet(np.ones(n)) + 1e-3


@pytest.mark.parametrize(("n", "batch", "separation"), SMALL)
def test_the_closed_form_is_the_law_of_the_explicit_chain(n, batch, separation):
    p = drawn(n)
    chain = order_chain(p, batch, separation)
    assert np.abs(minimum_separation(p, batch, separation) - participation_law(chain)).max() < 1e-12


def test_all_small_fleets_are_there():
    assert len(SMALL) == 41
    assert {(7, 1, 5), (7, 2, 2), (7, 3, 1), (6, 5, 0)} <= set(SMALL)


@pytest.mark.parametrize(("n", "batch"), [(2, 1), (3, 1), (4, 2), (5, 1), (6, 2), (6, 3)])
def test_without_spare_clients_all_take_turns(n, batch):
    separation = n // batch - 1
    p = drawn(n)
    assert minimum_separation(p, batch, separation) == pytest.approx(np.full(n, 1 / n), abs=1e-15)
    chain = order_chain(p, batch, separation)
    now, visits = np.eye(len(chain.windows)), 0
    for _ in range(separation + 1):
        now = now @ chain.transition
        visits = visits + now @ chain.masks
    assert np.abs(visits - 1).max() < 1e-12  # from every start, each client comes once in R+1 rounds
    assert np.abs(now - np.eye(len(now))).max() < 1e-12  # and then all begins anew
    cycles = math.factorial(n) // math.factorial(batch) ** (separation + 1) // (separation + 1)
    assert connected_components(chain.transition, connection="strong")[0] == cycles
    if n > 2:
        with pytest.raises(ValueError, match="not irreducible"):
            participation_law(chain)


def test_the_example_of_the_paper():
    assert minimum_separation([0.25, 0.25, 0.5], separation=1) == pytest.approx([0.3, 0.3, 0.4], abs=1e-15)


@given(weights)
def test_without_separation_a_single_draw_follows_the_weights(p):
    assert np.abs(minimum_separation(p) - p / p.sum()).max() < 1e-13


@settings(max_examples=60, deadline=None)
@given(weights, st.integers(1, 3), st.data())
def test_more_separation_never_takes_the_shares_further_apart(p, batch, data):
    batch = min(batch, len(p))
    most = len(p) // batch - 1
    rest = data.draw(st.integers(0, max(most - 1, 0)))
    less, more = separation_curve(p, batch, [rest, min(rest + 1, most)])
    assert np.abs(more - 1 / len(p)).sum() <= np.abs(less - 1 / len(p)).sum() + 1e-13
    order = np.argsort(-p)
    # Majorisation: the k largest shares together never grow.
    assert (np.cumsum(more[order]) <= np.cumsum(less[order]) + 1e-13).all()
    for i, j in itertools.pairwise(order):  # p_i ≥ p_j, so the ratio falls towards 1, from above
        assert more[i] * less[j] <= less[i] * more[j] + 1e-13
        assert more[i] >= more[j] - 1e-13


@settings(max_examples=40, deadline=None)
@given(weights, st.data())
def test_one_more_round_of_rest_draws_among_those_outside_the_window(p, data):
    """π_{R+1}(i) ∝ p_i (1 - (R+1) π_R(i)): an identity between closed forms of different sizes."""
    rest = data.draw(st.integers(0, max(len(p) - 2, 0)))
    if rest + 2 > len(p):
        return
    outside = p * (1 - (rest + 1) * minimum_separation(p, separation=rest))
    assert np.abs(outside / outside.sum() - minimum_separation(p, separation=rest + 1)).max() < 1e-9


def test_the_process_has_these_probabilities():
    p = drawn(9)
    found = process(9, weights=p.tolist(), batch=2, separation=2).stationary()
    assert np.allclose(found, 2 * minimum_separation(p, 2, 2), rtol=1e-6)


def leave_one_out(p, sizes):
    """n e_n-shares from sums of positive terms in extended precision, for all clients and several n at once."""
    q = (p / (1 + p)).astype(np.longdouble)
    without = np.zeros((len(p), max(sizes) + 1), dtype=np.longdouble)
    without[:, 0] = 1
    for j, chance in enumerate(q):
        others = np.arange(len(p)) != j
        shifted = np.zeros_like(without)
        shifted[:, 1:] = without[:, :-1]
        without[others] = (1 - chance) * without[others] + chance * shifted[others]
    for n in sizes:
        inside = q * without[:, n - 1]
        # P(i in, n in all) / P(n in all), by the two ways in which i may be in or out.
        yield inside / (inside + (1 - q) * (without[:, n] if n < len(p) else 0))


@pytest.mark.parametrize("tail", [0.5, 1.5, 4.0])
def test_a_hundred_clients_in_extended_precision(tail):
    p = 40 * np.arange(1, 101) ** -tail
    sizes = [1, 2, 5, 20, 60, 99]
    for n, expected in zip(sizes, leave_one_out(p, sizes), strict=True):
        assert np.abs(n * minimum_separation(p, separation=n - 1) - expected).max() < 1e-13


def test_five_hundred_clients_in_seconds():
    p = np.random.default_rng(0).dirichlet(np.ones(500))
    curve = separation_curve(p, separations=range(0, 500, 10))
    assert np.abs(curve.sum(axis=1) - 1).max() < 1e-12
    assert (np.diff(np.abs(curve - 1 / 500).sum(axis=1)) <= 1e-13).all()


def test_a_hundred_thousand_clients():
    p = np.random.default_rng(0).pareto(1.5, 100_000) + 0.01
    shares = minimum_separation(p, batch=100, separation=50)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    order = np.argsort(p)
    assert (np.diff(shares[order]) >= -1e-16).all()
    # Chances to be in a window of n, and of n + 1, obey I_{n+1} ∝ p (1 - I_n).
    wider = p * (1 - 5100 * shares)
    longer = minimum_separation(p, batch=1, separation=5100)
    assert np.abs(5101 * (wider / wider.sum() - longer)).max() < 1e-12


def test_gaps_have_kacs_mean():
    p = drawn(5)
    chain = order_chain(p, 1, 2)
    for client in range(5):
        law = gap_law(chain, client, 3000)
        assert (law[:2] == 0).all()
        assert law.sum() == pytest.approx(1, abs=1e-12)
        assert np.arange(1, 3001) @ law == pytest.approx(mean_gap(p, 1, 2)[client], rel=1e-9)


@pytest.mark.parametrize(("n", "separation"), [(3, 1), (4, 0), (5, 2), (6, 3), (6, 4)])
def test_the_shortest_gap_is_that_of_the_chain(n, separation):
    p = drawn(n)
    chain = order_chain(p, 1, separation)
    expected = [gap_law(chain, client, separation + 1)[-1] for client in range(n)]
    assert np.abs(shortest_gap(p, separation) - expected).max() < 1e-12


def test_the_shortest_gap_of_weights_far_apart():
    p = np.array([1e-3, 1e-2, 0.1, 1, 10])
    chain = order_chain(p, 1, 3)
    expected = [gap_law(chain, client, 4)[-1] for client in range(5)]
    assert np.abs(shortest_gap(p, 3) - expected).max() < 1e-11


def test_the_shortest_gap_by_hand():
    # R = 1: after 2 comes 0 or 1, and then 2 is drawn against the other one, with weights ½ and ¼.
    assert shortest_gap([0.25, 0.25, 0.5], 1)[2] == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.parametrize(("batch", "separation"), [(1, 0), (1, 3), (2, 1)])
def test_equal_weights_rest_and_then_wait_geometrically(batch, separation):
    chance = batch / (6 - batch * separation)
    law = gap_law(order_chain(np.ones(6), batch, separation), 4, separation + 8)
    assert law[separation:] == pytest.approx(chance * (1 - chance) ** np.arange(8), abs=1e-13)
    if batch == 1:
        assert shortest_gap(np.ones(6), separation) == pytest.approx(np.full(6, chance), abs=1e-12)


def test_without_separation_gaps_are_geometric():
    p = drawn(5)
    law, chance = gap_law(order_chain(p, 2, 0), 3, 9), 2 * minimum_separation(p, 2, 0)[3]
    assert law == pytest.approx(chance * (1 - chance) ** np.arange(9), abs=1e-13)


def test_without_spare_clients_the_gap_is_always_the_same():
    assert (shortest_gap(drawn(5), 4) == 1).all()
    assert mean_gap(drawn(6), 2, 2) == pytest.approx(np.full(6, 3.0), rel=1e-14)


def test_a_large_fleet_has_a_shortest_gap():
    p = np.random.default_rng(0).dirichlet(np.ones(300))
    found = shortest_gap(p, 100)
    rested = p / (p.sum() - np.sort(p)[-100:].sum())  # at most this chance, once it is rested
    assert (found > 0).all()
    assert (found < rested).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 0.0],), "client 1 has p = 0: must be positive"),
        (([0.5, np.inf],), "client 1 has p = inf: must be positive and finite"),
        (([0.5, np.nan],), "p.* must be a finite number, not nan"),
        (([],), r"p has shape \(0,\)"),
        ((np.ones((2, 2)),), r"p has shape \(2, 2\)"),
        (([1.0, 1.0], 3), "batch = 3 with 2 clients: must be at most 2"),
        (([1.0, 1.0], 0), "batch must be a whole number from 1 to 2³¹ - 1, not 0"),
        (([1.0, 1.0, 1.0], 1, -1), "separation must be a whole number from 0 to 2³¹ - 1, not -1"),
        (([1.0] * 5, 2, 2), "separation = 2 with batch = 2 and 5 clients: .* at most 1"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        minimum_separation(*arguments)
