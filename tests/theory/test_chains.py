import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turnout.theory import (
    eigenvalues,
    is_reversible,
    mixing_time,
    order_chain,
    period,
    return_law,
    second_eigenvalue,
    stationary_law,
    total_variation_over_time,
)
from turnout.theory.chains import require_ergodic

MANY = 100_000


@st.composite
def chains(draw, largest=9):
    """Irreducible chains, dense: a cycle through all states and some more steps."""
    size = draw(st.integers(1, largest))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    matrix = random.random((size, size)) * (random.random((size, size)) < draw(st.floats(0, 1)))
    matrix[np.arange(size), (np.arange(size) + 1) % size] += random.random(size) + 0.01
    return matrix / matrix.sum(axis=1, keepdims=True)


def walk_on_a_cycle(size, forward=0.5, stay=0.0):
    here = np.arange(size)
    steps = [(1 - stay) * forward, (1 - stay) * (1 - forward), stay]
    columns = [(here + 1) % size, (here - 1) % size, here]
    return sp.csr_array((np.repeat(steps, size), (np.tile(here, 3), np.concatenate(columns))), shape=(size, size))


def birth_and_death(size, up, down):
    return sp.diags_array(
        [np.full(size - 1, up), np.r_[1 - up, np.full(size - 2, 1 - up - down), 1 - down], np.full(size - 1, down)],
        offsets=[1, 0, -1],
    ).tocsr()


def scattered(size, seed=0):
    """Sparse, not reversible, with no order of the states that makes it narrow."""
    random = np.random.default_rng(seed)
    here = np.arange(size)
    columns = np.concatenate([(here + 1) % size, *random.integers(0, size, (4, size))])
    matrix = sp.csr_array((random.random(5 * size), (np.tile(here, 5), columns)), shape=(size, size))
    return sp.csr_array(sp.diags_array(1 / matrix.sum(axis=1)) @ matrix)


def law_by_least_squares(matrix):
    system = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    return np.linalg.lstsq(system, np.r_[np.zeros(len(matrix)), 1.0], rcond=None)[0]


def period_by_powers(matrix):
    reach, lengths = np.eye(len(matrix), dtype=bool), []
    for length in range(1, 3 * len(matrix) + 1):
        reach = (reach.astype(int) @ (matrix > 0)) > 0
        if reach[0, 0]:
            lengths.append(length)
    return math.gcd(*lengths)


@settings(deadline=None)
@given(chains())
def test_against_brute_force(matrix):
    law = stationary_law(matrix)
    assert np.abs(law - law_by_least_squares(matrix)).max() < 1e-10
    assert np.abs(stationary_law(sp.csr_array(matrix)) - law).max() < 1e-14
    assert period(matrix) == period(sp.coo_array(matrix)) == period_by_powers(matrix)
    flows = law[:, None] * matrix
    assert is_reversible(matrix) == is_reversible(sp.csr_array(matrix)) == np.allclose(flows, flows.T, rtol=1e-9)
    moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
    assert np.abs(eigenvalues(matrix)) == pytest.approx(moduli, abs=1e-6)
    assert eigenvalues(matrix)[0] == pytest.approx(1, abs=1e-9)


@settings(deadline=None)
@given(chains(), st.integers(0, 8))
def test_total_variation_is_that_of_the_powers(matrix, rounds):
    law = law_by_least_squares(matrix)
    powers = [np.linalg.matrix_power(matrix, t) for t in range(rounds + 1)]
    worst = [np.abs(power - law).sum(axis=1).max() / 2 for power in powers]
    first = [np.abs(power[0] - law).sum() / 2 for power in powers]
    assert total_variation_over_time(matrix, rounds) == pytest.approx(worst, abs=1e-9)
    assert total_variation_over_time(sp.csr_array(matrix), rounds, start=0) == pytest.approx(first, abs=1e-9)
    assert (np.diff(total_variation_over_time(matrix, rounds)) <= 1e-12).all()


@settings(deadline=None, max_examples=50)
@given(chains(), st.floats(0.01, 0.9))
def test_mixing_time_is_the_first_round_within_the_error(matrix, error):
    matrix = 0.9 * matrix + 0.1 * np.eye(len(matrix))
    t = mixing_time(matrix, error)
    distances = total_variation_over_time(matrix, t)
    assume(np.abs(distances - error).min() > 1e-12)  # else rounding decides
    assert distances[t] <= error
    assert (distances[:t] > error).all()
    by_start = [mixing_time(sp.csr_array(matrix), error, start=s) for s in range(len(matrix))]
    assert max(by_start) == t
    mixture = np.full(len(matrix), 1 / len(matrix))
    assert mixing_time(matrix, error, start=mixture) <= t


def test_random_reversible_chains_have_real_eigenvalues():
    weights = np.random.default_rng(0).random((30, 30))
    weights = weights + weights.T
    matrix = weights / weights.sum(axis=1, keepdims=True)
    assert is_reversible(matrix)
    assert eigenvalues(matrix).dtype == np.float64
    assert np.abs(stationary_law(matrix) - weights.sum(axis=1) / weights.sum()).max() < 1e-15


def test_small_probabilities_are_exact():
    law = stationary_law(birth_and_death(MANY, 0.2, 0.4))  # π_s ∝ 2^-s
    assert law[:900] == pytest.approx(0.5 ** np.arange(1, 901), rel=1e-11)


def test_a_periodic_chain():
    cycle = np.roll(np.eye(3), 1, axis=1)
    assert period(cycle) == 3
    assert stationary_law(cycle) == pytest.approx(np.full(3, 1 / 3))
    assert second_eigenvalue(cycle) == 1
    assert total_variation_over_time(cycle, 4) == pytest.approx(np.full(5, 2 / 3))
    for refuses in (require_ergodic, mixing_time):
        with pytest.raises(ValueError, match="period 3: the chain never forgets"):
            refuses(cycle)
    require_ergodic(0.5 * cycle + 0.5 * np.eye(3))


def test_nearly_periodic_chains_are_told_from_periodic_ones():
    matrix = walk_on_a_cycle(2000, stay=1e-9)
    assert period(matrix) == 1
    assert period(walk_on_a_cycle(2000)) == 2
    assert 1 - second_eigenvalue(matrix) == pytest.approx(2e-9, rel=1e-5)  # the eigenvalue -(1 - 2e-9)


def test_a_single_state():
    assert stationary_law(np.ones((1, 1))).tolist() == [1.0]
    assert second_eigenvalue(np.ones((1, 1))) == 0
    assert mixing_time(np.ones((1, 1))) == 0


def test_two_states_by_hand():
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    assert second_eigenvalue(matrix) == pytest.approx(0.6)
    assert total_variation_over_time(matrix, 3) == pytest.approx(0.75 * 0.6 ** np.arange(4))
    assert mixing_time(matrix, 0.1) == 4  # 0.75 · 0.6^4 = 0.0972


def test_slow_chains_are_mixed_by_doubling():
    matrix = np.array([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])
    exact = math.log(0.25 / 0.5) / math.log1p(-2e-9)
    assert mixing_time(matrix) == pytest.approx(exact, rel=1e-6)


def test_a_hundred_thousand_states_on_a_cycle():
    matrix = walk_on_a_cycle(MANY, stay=0.5)
    assert np.abs(MANY * stationary_law(matrix) - 1).max() < 1e-9
    assert period(matrix) == 1
    gap = 1 - second_eigenvalue(matrix)
    assert gap == pytest.approx((1 - math.cos(2 * math.pi / MANY)) / 2, rel=1e-5)  # 1e-14 of 1


def test_a_cycle_with_a_drift_is_factorised():
    random = np.random.default_rng(0).random(MANY) / 2  # states left at different rates: π_s ∝ 1 / (1 - stay_s)
    matrix = sp.csr_array(sp.diags_array(random) + sp.diags_array(1 - random) @ walk_on_a_cycle(MANY, forward=0.7))
    assert not is_reversible(matrix)
    expected = 1 / (1 - random)
    assert stationary_law(matrix) * expected.sum() == pytest.approx(expected, rel=1e-8)


def test_states_in_no_order_are_iterated():
    matrix = scattered(20_000)
    law = stationary_law(matrix)
    assert law.sum() == pytest.approx(1)
    assert np.abs(law @ matrix - law).sum() < 1e-14
    small = scattered(700)
    assert np.abs(stationary_law(small) - stationary_law(small.toarray())).max() < 1e-14


def test_a_slow_iteration_goes_on_until_little_is_left():
    """One step in twenty is a move, so that fifty steps are by far too few."""
    slow = sp.csr_array(0.95 * sp.eye_array(20_000) + 0.05 * scattered(20_000))
    assert np.abs(stationary_law(slow) - stationary_law(scattered(20_000))).sum() < 1e-12


def test_eigenvalues_of_a_large_chain_that_is_not_reversible():
    # Two equal halves with a rare passage. (1, -1) is an eigenvector, of 0.99 - 0.01; the others are scattered below.
    halves = sp.block_diag([scattered(1000), scattered(1000)]).tocsr()
    here = np.arange(2000)
    swap = sp.csr_array((np.ones(2000), (here, (here + 1000) % 2000)))
    matrix = sp.csr_array(0.99 * halves + 0.01 * swap)
    assert np.abs(eigenvalues(matrix, 2) - [1, 0.98]).max() < 1e-10
    assert second_eigenvalue(matrix) == pytest.approx(0.98, abs=1e-10)


def test_both_ends_of_a_large_reversible_spectrum():
    found = eigenvalues(walk_on_a_cycle(3000, stay=0.1), 5)
    angles = 2 * np.pi * np.arange(3000) / 3000
    expected = 0.1 + 0.9 * np.cos(angles)
    expected = expected[np.argsort(-np.abs(expected))]
    assert found == pytest.approx(expected[:5], abs=1e-9)
    random = np.random.default_rng(0)
    links = sp.random_array((1100, 1100), density=0.01, rng=random)  # no narrow band: Lanczos
    links = sp.csr_array(links + links.T + sp.eye_array(1100))
    matrix = sp.csr_array(sp.diags_array(1 / links.sum(axis=1)) @ links)
    roots = np.sqrt(links.sum(axis=1))
    expected = np.linalg.eigvalsh(links.toarray() / np.outer(roots, roots))
    assert eigenvalues(matrix, 3) == pytest.approx(sorted(expected, key=abs, reverse=True)[:3], abs=1e-9)


def test_returns_to_a_set():
    matrix = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    inside = np.array([True, False, False, True, False, False])
    law, chances = stationary_law(matrix), np.zeros(5)
    for length in range(1, 6):
        for path in itertools.product(range(6), repeat=length + 1):
            away = not any(inside[s] for s in path[1:-1])
            if inside[path[0]] and away and inside[path[-1]]:
                chances[length - 1] += law[path[0]] * math.prod(matrix[a, b] for a, b in itertools.pairwise(path))
    assert return_law(matrix, inside, 5) == pytest.approx(chances / law[inside].sum(), abs=1e-13)
    assert np.arange(1, 501) @ return_law(matrix, inside, 500) == pytest.approx(1 / law[inside].sum())


def test_the_order_chain_forgets():
    chain = order_chain([0.25, 0.25, 0.5], 1, 1).transition
    # P = [[0, 1/3, 2/3], [1/3, 0, 2/3], [1/2, 1/2, 0]]: eigenvalues 1, -1/3, -2/3.
    assert eigenvalues(chain) == pytest.approx([1, -2 / 3, -1 / 3], abs=1e-12)
    assert second_eigenvalue(chain) == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)) / 3, r"transition has shape \(2, 3\): must be square"),
        (sp.csr_array((0, 0)), r"transition has shape \(0, 0\)"),
        (np.array([[0.5, 0.4], [0.5, 0.5]]), "transition row 0 sums to 0.9"),
        (sp.csr_array([[1.5, -0.5], [0.5, 0.5]]), "transition row 0 has -0.5: probabilities must not be negative"),
        (np.array([[np.nan, 1.0], [0.5, 0.5]]), "transition must be an array of numbers"),
        (np.eye(2), r"not irreducible, its states fall into \[\[0\], \[1\]\]"),
        (sp.eye_array(50).tocsr(), r"fall into 50 parts of 1, 1, 1, … states"),
    ],
)
def test_refuses_what_is_no_irreducible_chain(matrix, message):
    for function in (stationary_law, period, second_eigenvalue, mixing_time):
        with pytest.raises(ValueError, match=message):
            function(matrix)


def test_refuses_other_things():
    matrix = walk_on_a_cycle(5000, stay=0.5)
    with pytest.raises(ValueError, match=r"the worst start of 5000 states cannot be searched .*: name a start"):
        mixing_time(matrix)
    with pytest.raises(ValueError, match="start = 5000: the states are 0 to 4999"):
        mixing_time(matrix, start=5000)
    with pytest.raises(ValueError, match="must be a law over the 5000 states"):
        total_variation_over_time(matrix, 3, start=np.ones(5000))
    with pytest.raises(ValueError, match="error must be a number above 0 and below 1, not 0"):
        mixing_time(np.full((2, 2), 0.5), 0.0)
    with pytest.raises(ValueError, match="count = 5000 of 5000 states: must be at most 4997"):
        eigenvalues(matrix)
    with pytest.raises(ValueError, match="inside names no state"):
        return_law(np.full((2, 2), 0.5), np.zeros(2, dtype=bool), 3)
    with pytest.raises(ValueError, match=r"inside has shape \(3,\)"):
        return_law(np.full((2, 2), 0.5), np.zeros(3, dtype=bool), 3)


def test_says_so_when_eigenvalues_do_not_come():
    with pytest.raises(RuntimeError, match="the eigenvalues of 3000 states did not converge"):
        eigenvalues(walk_on_a_cycle(3000, forward=0.7, stay=0.5), 3)
