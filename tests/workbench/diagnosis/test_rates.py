"""π and λ: counts by brute force, laws against draws, intervals that hold the truth as often as they say."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from turnout.workbench.diagnosis.findings.rates import (
    _ratio_quantile,
    _runs_test,
    _sum_quantile,
    adjust,
    discoveries,
    rates,
    transitions,
)
from turnout.workbench.diagnosis.reading.log import Log

shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=14)
logs = shapes.flatmap(lambda shape: st.tuples(arrays(bool, shape), arrays(bool, shape)))


@given(logs)
def test_transitions_are_those_between_watched_neighbours(pair):
    present, watched = pair[0] & pair[1], pair[1]
    moves = transitions(Log.from_matrix(present, watched=watched))
    both = watched[:, :-1] & watched[:, 1:]
    was, now = present[:, :-1], present[:, 1:]
    np.testing.assert_array_equal(moves.on_on, (both & was & now).sum(axis=1))
    np.testing.assert_array_equal(moves.off_on, (both & ~was & now).sum(axis=1))
    np.testing.assert_array_equal(moves.on_off, (both & was & ~now).sum(axis=1))
    np.testing.assert_array_equal(moves.off_off, (both & ~was & ~now).sum(axis=1))


@given(logs)
def test_estimates_are_ordered_and_within_their_range(pair):
    found = rates(Log.from_matrix(pair[0] & pair[1], watched=pair[1]))
    known = found.watched > 0
    assert ((found.pi_low <= found.pi) & (found.pi <= found.pi_high))[known].all()
    assert ((found.lam_low <= found.lam_high) & (found.lam_low >= -1) & (found.lam_high <= 1)).all()
    assert ((found.pi_low >= 0) & (found.pi_high <= 1)).all()
    assert np.isnan(found.pi[~known]).all()


@pytest.mark.parametrize("on", [1, 3, 5])
def test_the_test_of_independence_is_exact(on):
    """Against all orders of 9 slots with so many on."""
    runs = []
    for chosen in itertools.combinations(range(9), on):
        row = np.isin(np.arange(9), chosen)
        runs.append(int((np.diff(np.r_[False, row]) & row).sum()))
    runs = np.array(runs)
    for seen in np.unique(runs):
        tail = min((runs <= seen).mean(), (runs >= seen).mean())
        found = _runs_test(np.array([seen]), np.array([on]), np.array([9]))
        assert found[0] == pytest.approx(min(1, 2 * tail))


def test_the_normal_tail_joins_the_exact_one():
    runs, on, watched = np.array([150, 140]), np.array([250, 250]), np.array([600, 600])
    law = stats.hypergeom(600, 351, 250)
    expected = 2 * np.minimum(law.cdf(runs), law.sf(runs - 1))
    np.testing.assert_allclose(_runs_test(runs, on, watched), np.minimum(expected, 1), rtol=0.05)


def test_gaps_in_watching_are_joined():
    """Under independence the order of slots means nothing, nor do slots left out."""
    row = np.random.default_rng(0).random((1, 60)) < 0.5
    spread = np.zeros((1, 120), bool)
    watched = np.zeros((1, 120), bool)
    place = np.r_[0:20, 50:70, 100:120]
    spread[:, place], watched[:, place] = row, True
    plain, gapped = rates(Log.from_matrix(row)), rates(Log.from_matrix(spread, watched=watched))
    assert plain.p_value == gapped.p_value


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusted_is_benjamini_and_hochberg(values):
    p = np.array(values)
    np.testing.assert_allclose(adjust(p), stats.false_discovery_control(p), atol=1e-12)
    assert (discoveries(p) == (stats.false_discovery_control(p) <= 0.05)).all()


COUNTS = [(0, 500, 0, 0), (1, 300, 1, 5), (1, 499, 1, 0), (2, 400, 2, 100), (5, 50, 5, 50), (100, 400, 100, 400)]


@pytest.mark.parametrize("counts", COUNTS)
def test_quantiles_agree_with_draws(counts):
    off_on, off_off, on_off, on_on = (np.array([count + 0.5]) for count in counts)
    wake, sleep = (off_on, off_off), (on_off, on_on)
    draw = np.random.default_rng(0)
    a, s = draw.beta(*wake, 100_000), draw.beta(*sleep, 100_000)
    for share in (0.025, 0.5, 0.975):
        assert (a / (a + s) < _ratio_quantile(wake, sleep, share, 1.0)).mean() == pytest.approx(share, abs=0.012)
        # A rate of which nothing is known has a law with two peaks, which one Beta law cannot follow in the middle.
        loose = 0.025 if min(counts[1] + counts[0], counts[2] + counts[3]) > 2 or share != 0.5 else 0.1
        assert (a + s < _sum_quantile(wake, sleep, share)).mean() == pytest.approx(share, abs=loose)


@pytest.mark.parametrize(
    ("slots", "low", "high", "least"),
    [
        (40, 0.0, 0.5, 0.92),
        (40, 0.5, 0.95, 0.90),
        (400, 0.0, 0.6, 0.935),
        (400, 0.6, 0.95, 0.93),
        (2000, 0.9, 0.98, 0.93),
    ],
)
def test_intervals_hold_the_truth(chains, slots, low, high, least):
    draw = np.random.default_rng(slots)
    pi, lam = draw.uniform(0.02, 0.98, 2000), draw.uniform(low, high, 2000)
    found = rates(Log.from_matrix(chains(slots, pi, lam, slots)))
    for truth, ends in ((pi, (found.pi_low, found.pi_high)), (lam, (found.lam_low, found.lam_high))):
        held = ((ends[0] <= truth) & (truth <= ends[1])).mean()
        assert least <= held <= 0.975


def test_never_and_always_seen():
    found = rates(Log.from_matrix(np.array([[0] * 200, [1] * 200], bool)))
    assert found.pi.tolist() == [0, 1]
    assert found.pi_low[0] == 0
    assert found.pi_high[1] == 1
    assert found.pi_high[0] == pytest.approx(stats.beta.ppf(0.975, 0.5, 200.5))
    assert found.pi_low[1] == pytest.approx(1 - found.pi_high[0])
    assert (found.p_value == 1).all()


def test_the_never_seen_may_be_as_persistent_as_the_others(chains):
    others = chains(0, np.full(50, 0.3), np.full(50, 0.9), 200)
    found = rates(Log.from_matrix(np.vstack([others, np.zeros((1, 200), bool)])))
    assert 0.1 < found.pi_high[-1] < 0.5


def test_memory_is_told_from_none(chains):
    pi = np.full(200, 0.3)
    without = rates(Log.from_matrix(chains(0, pi, np.zeros(200), 300)))
    assert (without.p_value < 0.05).mean() < 0.08
    assert without.fleet_p_value > 0.01
    with_it = rates(Log.from_matrix(chains(0, pi, np.full(200, 0.5), 300)))
    assert with_it.persistent.mean() > 0.95


def test_widening_widens():
    log = Log.from_matrix(np.random.default_rng(0).random((5, 300)) < 0.4)
    narrow, wide = rates(log), rates(log, widening=2.0)
    ratio = (wide.pi_high - wide.pi_low) / (narrow.pi_high - narrow.pi_low)
    assert ((ratio > 1.8) & (ratio < 2.2)).all()
    np.testing.assert_array_equal(narrow.lam_low, wide.lam_low)
