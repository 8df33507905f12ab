import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_in_ticks import Buffered, play
from random_worlds import clients_of_the_page, lognormal_table, random_world, two_classes_of_the_page

from turnout.theory import buffered_arrivals, effective_in_time, total_variation, work_times

LEAVING = ("continue", "pause", "abort")


def against_play(size, cap, seed, count, leaving="continue", longest=20, odds=None):
    """(total variation of the effective weights, what chance makes of it, relative errors of step time and mean age)"""
    pi, lam, table = random_world(seed, count, longest)
    found = buffered_arrivals(pi, lam, table, size, cap, leaving, odds, exponent=0.5)
    pace = Buffered(size, cap, odds)
    played = play(pace, pi, lam, table, leaving, seed=seed, exponent=0.5)
    assert found.doubts == () or size == count
    weights = effective_in_time(found, np.ones(count))
    age = found.shares @ found.age / max(played.age.sum() / played.used.sum(), 1e-9) - 1
    distance = total_variation(weights, played.share())
    return distance, played.noise(), found.ticks_per_step / played.ticks_per_step - 1, age


@pytest.mark.parametrize(
    ("seed", "size", "cap", "leaving"),
    [
        (1, 1, None, "continue"),
        (2, 2, None, "pause"),
        (3, 2, None, "abort"),
        (1, 2, 10, "abort"),
        (2, 2, 10, "continue"),
        (3, 2, 10, "pause"),
        (3, 2, 2, "continue"),
        (2, 2, None, "answer"),
        (1, 2, 10, "answer"),
    ],
)
def test_small_buffers_as_played(size, cap, seed, leaving):
    longest = 5 if leaving == "abort" else 20
    distance, chance, step_time, age = against_play(size, cap, seed, 20, leaving, longest)
    assert distance < 0.012 + 2 * chance  # 0.004 and 3 % where clients are more than 20
    assert abs(step_time) < 0.03
    assert abs(age) < 0.06


@pytest.mark.parametrize(("size", "leaving"), [(10, "abort"), (16, "pause"), (20, "continue")])
def test_large_buffers_as_played(size, leaving):
    distance, chance, step_time, age = against_play(size, None, 1, 20, leaving, 5 if leaving == "abort" else 20)
    assert distance < 0.015 + 2 * chance
    assert abs(step_time) < (0.06 if size < 20 else 0.2)
    assert abs(age) < 0.08 or size == 20  # nobody steps while anybody works: age 0


def test_all_are_waited_for():
    pi, lam, table = random_world(1, 12)
    found = buffered_arrivals(pi, lam, table, size=12, exponent=0.5)
    assert found.shares == pytest.approx(np.full(12, 1 / 12))
    assert found.discount == pytest.approx(np.ones(12))


def test_unequal_odds_as_played():
    distance, chance, step_time, _ = against_play(2, 8, 1, 20, odds=np.linspace(0.3, 3, 20))
    assert distance < 0.012 + 2 * chance
    assert abs(step_time) < 0.03


def test_the_page():
    """The numbers of docs/theory/time.md; an audit that played the same servers had 21 and 24 % for 50 at work."""
    durations, slow = clients_of_the_page()
    pi, lam = two_classes_of_the_page()
    target = np.ones(100)

    def shown(rate, correlation, **pace):
        found = effective_in_time(buffered_arrivals(rate, correlation, durations, **pace, exponent=0.5), target)
        return round(100 * found[slow].sum(), 1), round(100 * total_variation(target, found), 1)

    assert slow.sum() == 44
    assert shown(1.0, 0.0, size=10, concurrency=50) == (21.2, 23.7)
    assert shown(1.0, 0.0, size=10) == (11.7, 37.8)
    assert shown(1.0, 0.0, size=1) == (11.9, 37.5)
    assert shown(pi, lam, size=10, concurrency=50) == (14.7, 46.2)
    assert shown(pi, lam, size=10) == (10.1, 50.1)
    assert shown(pi, lam, size=1) == (9.8, 50.5)


def test_always_there_and_everybody_at_work_is_one_over_the_duration():
    durations = np.array([0, 1, 3, 7])
    found = buffered_arrivals(1.0, 0.0, durations, size=1)
    assert found.rates == pytest.approx(1 / (durations + 1), rel=1e-3)
    assert found.buffer_wait == 0


def test_with_one_at_work_and_everybody_there_all_weigh_the_same():
    durations, _ = clients_of_the_page()
    found = buffered_arrivals(1.0, 0.0, durations, size=1, concurrency=1)
    assert found.shares == pytest.approx(np.full(100, 0.01), rel=0.01)
    assert found.at_work == pytest.approx(1, rel=1e-3)
    assert found.age == pytest.approx(np.zeros(100), abs=1e-9)


def test_few_at_work_are_as_biased_as_rounds():
    """C -> 0: Ω ∝ π, whatever the durations."""
    pi = np.linspace(0.2, 0.9, 200)
    found = buffered_arrivals(pi, 0.0, np.arange(200) % 3, size=1, concurrency=1)
    assert found.shares == pytest.approx(pi / pi.sum(), rel=0.02)


@pytest.mark.parametrize("leaving", LEAVING)
def test_no_durations_and_no_wait_are_rounds(leaving):
    """Durations of 0 and a buffer of one: every tick is a round of all that are there, Ω ∝ π."""
    pi, lam = np.array([0.9, 0.5, 0.2]), np.array([0.5, 0.0, 0.8])
    found = buffered_arrivals(pi, lam, [0, 0, 0], size=1, leaving=leaving)
    assert found.rates == pytest.approx(pi, rel=1e-9)
    assert found.ticks_per_step == pytest.approx(1 / (1 - (1 - pi).prod()), rel=0.04)
    assert found.age == pytest.approx(np.zeros(3), abs=1e-12)


def test_one_client():
    times = work_times(0.4, 0.6, [[0.2, 0.3, 0.5]])
    found = buffered_arrivals(0.4, 0.6, [[0.2, 0.3, 0.5]], size=1)
    assert 1 / found.rates == pytest.approx(times.mean + 1 + 0.6 * 0.4 / (0.4 * 0.4))
    assert found.shares == pytest.approx([1.0])
    assert found.age == pytest.approx([0.0])
    assert found.ticks_per_step == pytest.approx(1 / float(found.rates[0]), rel=1e-6)


def test_a_cap_that_does_not_bind_is_none():
    pi, lam, table = random_world(1, 30)
    free = buffered_arrivals(pi, lam, table, size=3, exponent=0.5)
    for cap in (30, 40):
        capped = buffered_arrivals(pi, lam, table, size=3, concurrency=cap, exponent=0.5)
        assert capped.rates == pytest.approx(free.rates, rel=1e-12)
    loose = buffered_arrivals(pi, lam, table, size=3, concurrency=29, exponent=0.5)
    assert loose.rates == pytest.approx(free.rates, rel=0.01)


def test_long_absences():
    """λ near 1: clients are away for thousands of ticks, and the laws are cut, but means are not."""
    pi, _, table = random_world(1, 20)
    found = buffered_arrivals(pi, 0.9995, table, size=2, concurrency=10, exponent=0.5)
    assert np.isfinite(found.rates).all()
    assert ((found.discount > 0) & (found.discount < 1)).all()
    assert found.age[found.work > 300] == pytest.approx(found.work[found.work > 300] / found.ticks_per_step, rel=0.1)


@st.composite
def worlds(draw):
    count = draw(st.integers(7, 14))
    pi = np.array(draw(st.lists(st.floats(0.1, 1), min_size=count, max_size=count)))
    lam = np.where(pi == 1, 0.0, draw(st.floats(0, 0.9)))
    durations = np.array(draw(st.lists(st.integers(0, 8), min_size=count, max_size=count)))
    return pi, lam, durations


@settings(max_examples=8, deadline=None)
@given(worlds(), st.integers(1, 7), st.sampled_from(LEAVING))
def test_shares_add_up_and_nobody_has_more_than_the_places(world, cap, leaving):
    found = buffered_arrivals(*world, size=1, concurrency=cap, leaving=leaving, exponent=0.5)
    assert found.shares.sum() == pytest.approx(1)
    assert (found.shares > 0).all()
    assert found.at_work <= cap * (1 + 1e-6)
    assert ((found.discount > 0) & (found.discount < 1 + 1e-9)).all()
    assert (found.age > -1e-9).all()


@settings(max_examples=8, deadline=None)
@given(worlds(), st.integers(1, 7))
def test_more_work_at_once_means_more_updates(world, cap):
    rates = [buffered_arrivals(*world, size=1, concurrency=c).rates.sum() for c in (cap, cap + 3)]
    assert rates[1] >= rates[0] * (1 - 1e-6)


@settings(max_examples=8, deadline=None)
@given(worlds(), st.sampled_from(LEAVING), st.sampled_from([None, 4]))
def test_who_works_longer_or_is_there_less_comes_less(world, leaving, cap):
    pi, lam, durations = world
    before = buffered_arrivals(pi, lam, durations, size=1, concurrency=cap, leaving=leaving)
    slower, rarer = durations.copy(), pi.copy()
    slower[0] += 2
    rarer[0] *= 0.7
    for changed in ((pi, lam, slower), (rarer, lam, durations)):
        after = buffered_arrivals(*changed, size=1, concurrency=cap, leaving=leaving)
        assert after.shares[0] <= before.shares[0] * (1 + 0.02)  # others may wait longer, too


@settings(max_examples=8, deadline=None)
@given(worlds())
def test_alike_clients_weigh_the_same(world):
    pi, lam, durations = (np.concatenate([part, part]) for part in world)
    found = buffered_arrivals(pi, lam, durations, size=2, concurrency=5, exponent=0.5)
    half = pi.size // 2
    assert found.rates[:half] == pytest.approx(found.rates[half:], rel=1e-9)


def test_doubts_are_said():
    pi, lam, table = random_world(1, 20)
    (doubt,) = buffered_arrivals(pi, lam, table, size=10, concurrency=15).doubts
    assert "more than a sixth" in doubt
    (doubt,) = buffered_arrivals(0.95, 0.0, np.arange(1, 21), size=2).doubts
    assert "stay in step" in doubt
    assert buffered_arrivals(0.95, 0.0, lognormal_table(np.full(20, 4.0), 0.6, 20), size=2).doubts == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 4}, "size = 4: a buffer of 3 clients is never fuller than 3"),
        ({"size": 0}, "size must be a whole number from 1 to"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to"),
        ({"odds": [1, 0, 1]}, "client 1 has odds = 0"),
        ({"odds": [1, 1]}, "odds has 2 values for 3 clients"),
        ({"exponent": -0.5}, "exponent must be a finite number of 0 or more, not -0.5"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        buffered_arrivals(0.5, 0.0, [1, 2, 3], **{"size": 1, **change})
