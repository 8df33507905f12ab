import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_in_ticks import Clocked, play
from random_worlds import random_world

from turnout.theory import clocked_arrivals, effective_in_time, total_variation

LEAVING = ("continue", "pause", "abort")


@pytest.mark.parametrize(
    ("seed", "every", "leaving"),
    [(1, 4, "continue"), (3, 1, "pause"), (4, 11, "pause"), (3, 4, "abort"), (1, 11, "abort")],
)
def test_as_played(seed, every, leaving):
    pi, lam, table = random_world(seed, 20, longest=5 if leaving == "abort" else 20)
    found = clocked_arrivals(pi, lam, table, every, leaving, exponent=0.5)
    played = play(Clocked(every), pi, lam, table, leaving, seed=seed, exponent=0.5)
    distance = total_variation(effective_in_time(found, np.ones(20)), played.share())
    assert distance < 2.5 * played.noise()  # exact: nothing but chance
    assert found.rates.sum() == pytest.approx(played.rates.sum(), rel=0.01)
    assert found.shares @ found.age == pytest.approx(played.age.sum() / played.used.sum(), rel=0.03, abs=0.003)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 12), st.sampled_from(LEAVING))
def test_always_there_is_fed_fix(durations, every, leaving):
    """Then ⌈(d + 1)/Δ⌉ beats pass, and α_k ⌈(d + 1)/Δ⌉, FedFix's coefficient, is right."""
    beats = np.ceil((np.array(durations) + 1) / every)
    found = clocked_arrivals(1.0, 0.0, durations, every, leaving, exponent=0.5)
    assert 1 / found.rates == pytest.approx(beats * every)
    assert found.age == pytest.approx(beats - 1)
    assert found.discount == pytest.approx(beats**-0.5)
    assert effective_in_time(clocked_arrivals(1.0, 0.0, durations, every), beats) == pytest.approx(1 / beats.size)


@pytest.mark.parametrize("leaving", LEAVING)
def test_no_durations_and_a_step_per_tick_are_rounds(leaving):
    pi = np.array([0.9, 0.5, 0.2])
    found = clocked_arrivals(pi, [0.5, -0.3, 0.8], [0, 0, 0], 1, leaving)
    assert found.rates == pytest.approx(pi)
    assert found.age == pytest.approx(np.zeros(3), abs=1e-12)


def test_no_durations_and_independent_ticks():
    """Used in every beat in which it was there at all: 1 - (1 - π)^Δ."""
    found = clocked_arrivals([0.5, 0.2], 0.0, [0, 0], 3)
    assert found.rates == pytest.approx((1 - np.array([0.5, 0.8]) ** 3) / 3)


def test_absences_of_any_length():
    """λ near 1, and work that hardly ever ends: no law is cut short."""
    found = clocked_arrivals(0.3, 0.99999, [[0.5, 0.5]], 7)
    assert float(found.rates[0]) == pytest.approx(0.3 / 7, rel=0.01)  # while it is there, once a beat
    hopeless = clocked_arrivals([0.5, 0.5], 0.0, [1, 40], 5, "abort")
    assert float(hopeless.rates[1]) < 1e-10
    assert float(hopeless.rates[0]) > 0.05


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 0.95), st.floats(0, 0.9), st.integers(0, 8), st.integers(1, 9), st.sampled_from(LEAVING))
def test_slower_work_and_rarer_steps_use_less(pi, lam, duration, every, leaving):
    def rate(d, beat):
        return float(clocked_arrivals(pi, lam, [d], beat, leaving).rates[0])

    assert rate(duration + 1, every) <= rate(duration, every) * (1 + 1e-9)
    assert rate(duration, 2 * every) <= rate(duration, every) * (1 + 1e-9)
    assert rate(duration, every) <= 1 / every


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clocked_arrivals(0.5, 0.0, [1], 0), "every must be a whole number from 1 to"),
        (lambda: clocked_arrivals(0.5, 0.0, [1], 5, exponent=-1.0), "exponent must be a finite number"),
        (lambda: effective_in_time(clocked_arrivals(0.5, 0.0, [1], 5), [1.0], average=True), "average = True"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
