import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_in_ticks import Rounds, play
from random_worlds import clients_of_the_page, lognormal_table, random_world, two_classes_of_the_page

from turnout.theory import effective_in_time, effective_normalised, round_arrivals, total_variation

EVERYBODY = np.ones(100)


@pytest.mark.parametrize(
    ("seed", "quorum", "deadline", "late", "leaving"),
    [
        (1, 1.0, None, "drop", "continue"),
        (2, 0.8, None, "drop", "pause"),
        (1, 0.5, None, "drop", "continue"),
        (4, 0.5, None, "keep", "continue"),
        (1, 1.0, 6, "keep", "pause"),
        (2, 0.8, 8, "drop", "abort"),
        (2, 0.5, None, "drop", "answer"),
        (4, 0.5, None, "keep", "answer"),
    ],
)
def test_as_played(seed, quorum, deadline, late, leaving):
    pi, lam, table = random_world(seed, 50, longest=5 if leaving == "abort" else 20)
    found = round_arrivals(pi, lam, table, quorum, deadline, late, leaving, exponent=0.5)
    played = play(Rounds(quorum, deadline, late), pi, lam, table, leaving, seed=seed, exponent=0.5, worlds=30)
    assert found.doubts == ()
    weights, averages = (effective_in_time(found, np.ones(50), average) for average in (False, True))
    assert total_variation(weights, played.share()) < 0.008 + 2 * played.noise()
    assert total_variation(averages, played.share("averaged")) < 0.03 + 2 * played.noise("averaged")
    assert found.ticks_per_step == pytest.approx(played.ticks_per_step, rel=0.06)
    age = played.age.sum() / played.used.sum()
    assert found.shares @ found.age == pytest.approx(age, rel=0.04, abs=0.01)


@pytest.mark.parametrize(
    ("quorum", "left_out", "length"), [(1.0, 0, 21), (0.9, 17, None), (0.8, 26, None), (0.5, 66, 4)]
)
def test_a_quorum_that_drops_the_late_eats_itself(quorum, left_out, length):
    durations, slow = clients_of_the_page()
    found = round_arrivals(1.0, 0.0, durations, quorum)
    assert (found.rates == 0).sum() == left_out
    weights = effective_in_time(found, EVERYBODY, average=True)
    assert total_variation(EVERYBODY, weights) == pytest.approx(left_out / 100)
    assert weights[slow].sum() == pytest.approx(
        0 if quorum == 0.5 else 0.44 - (left_out / 100) * 0.56 / (1 - left_out / 100), abs=0.2
    )
    if length:
        assert found.ticks_per_step == length


def test_the_page():
    """The numbers of docs/theory/time.md: share of the slow, and weight in the wrong place, in per cent."""
    durations, slow = clients_of_the_page()
    pi, lam = two_classes_of_the_page()

    def shown(rate, correlation, quorum=1.0, late="drop"):
        found = round_arrivals(rate, correlation, durations, quorum, late=late)
        weights = effective_in_time(found, EVERYBODY, average=True)
        return 100 * weights[slow].sum(), 100 * total_variation(EVERYBODY, weights)

    assert shown(1.0, 0.0) == pytest.approx((44, 0), abs=1e-9)
    assert shown(1.0, 0.0, 0.5, "keep") == pytest.approx((24.2, 23.7), abs=0.05)
    assert shown(pi, lam) == pytest.approx((33.5, 39.0), abs=0.1)
    assert shown(pi, lam, 0.5) == pytest.approx((0, 73.2), abs=0.05)
    assert shown(pi, lam, 0.5, "keep") == pytest.approx((19.5, 41.8), abs=0.05)


@pytest.mark.parametrize("leaving", ["continue", "pause", "abort"])
@pytest.mark.parametrize("quorum", [1.0, 0.5])
def test_no_durations_are_rounds_of_today(leaving, quorum):
    """Everybody that is asked answers at once: Ω ∝ π, and FedAvg's averages are those of `effective_normalised`."""
    pi, lam = np.linspace(0.3, 0.9, 20), np.linspace(0, 0.8, 20)
    found = round_arrivals(pi, lam, np.zeros(20, int), quorum, leaving=leaving)
    assert found.rates == pytest.approx(pi, rel=1e-6)
    assert found.asked == pytest.approx(pi, rel=1e-6)
    assert found.ticks_per_step == pytest.approx(1)
    averages = effective_in_time(found, np.ones(20), average=True)
    assert averages == pytest.approx(effective_normalised(pi, np.ones(20)), rel=1e-5 if quorum == 1 else 0.04)


def test_one_client_alone():
    """It is asked whenever it is there, so rounds are its work, and empty rounds of one tick while it is away."""
    found = round_arrivals(0.5, 0.0, [[0.0, 0.0, 1.0]])
    played = play(Rounds(), 0.5, 0.0, [[0.0, 0.0, 1.0]], ticks=3000)
    assert found.rates == pytest.approx(played.rates, rel=0.02)
    assert found.ticks_per_step == pytest.approx(played.ticks_per_step, rel=0.02)


def test_fixed_durations_of_clients_that_never_leave_are_played_exactly():
    durations = np.array([0, 0, 1, 3, 5, 5])
    for late in ("drop", "keep"):
        found = round_arrivals(1.0, 0.0, durations, 0.5, late=late, exponent=0.5)
        played = play(Rounds(0.5, late=late), 1.0, 0.0, np.eye(6)[durations], ticks=1200, worlds=1, exponent=0.5)
        assert found.rates == pytest.approx(played.rates, rel=0.01, abs=1e-3)
        assert effective_in_time(found, np.ones(6)) == pytest.approx(played.share(), rel=0.01, abs=1e-3)


def test_a_deadline_with_everybody_there_and_late_ones_kept():
    """Rounds of 4 ticks: α_k / ⌈(d + 1)/4⌉, each ⌈(d + 1)/4⌉ − 1 versions old."""
    durations = np.array([3, 3, 4, 7, 8, 14])
    found = round_arrivals(1.0, 0.0, durations, deadline=4, late="keep")
    beats = np.ceil((durations + 1) / 4)
    assert found.rates == pytest.approx(1 / (4 * beats), rel=1e-3)
    assert found.age == pytest.approx(beats - 1)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000), st.floats(0.2, 0.9), st.sampled_from(["drop", "keep"]))
def test_shares_and_probabilities(seed, quorum, late):
    pi, lam, _ = random_world(seed, 12)
    table = lognormal_table(np.linspace(1, 5, 12), 0.6, 12)
    found = round_arrivals(pi, lam, table, quorum, late=late)
    assert found.shares.sum() == pytest.approx(1)
    assert ((found.asked >= 0) & (found.asked <= 1)).all()
    assert ((found.counted >= 0) & (found.counted <= 1)).all()
    assert 1 <= found.ticks_per_step <= round_arrivals(pi, lam, table, 1.0).ticks_per_step * 1.02
    assert effective_in_time(found, np.ones(12), average=True).sum() == pytest.approx(1)


def test_a_longer_deadline_hears_more():
    pi, lam, table = random_world(1, 15)
    heard = [round_arrivals(pi, lam, table, deadline=deadline).counted for deadline in (2, 5, 10, 30)]
    assert all((after >= before - 1e-6).all() for before, after in itertools.pairwise(heard))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quorum": 0.0}, "quorum = 0: must be above 0"),
        ({"quorum": 1.5}, "quorum must be a number from 0 to 1, not 1.5"),
        ({"deadline": 0}, "deadline must be a whole number from 1 to"),
        ({"deadline": 2}, "deadline = 2: the fastest work takes 3 ticks, so every answer would be late"),
        ({"exponent": -1.0}, "exponent must be a finite number of 0 or more, not -1"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        round_arrivals(0.5, 0.0, [2, 5], **change)
