import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_in_ticks import Buffered, play
from random_worlds import random_world

from turnout.theory import buffered_arrivals, clocked_arrivals, work_times
from turnout.theory.time.clients import read_clients
from turnout.theory.time.laws import span_law, work_law

LEAVING = ("continue", "pause", "abort")


@st.composite
def clients(draw):
    pi = draw(st.floats(0.05, 0.95))
    lowest = max(1 - 1 / pi, 1 - 1 / (1 - pi))
    chances = np.array(draw(st.lists(st.floats(0.01, 1), min_size=1, max_size=6)))
    return pi, draw(st.floats(lowest * 0.99, 0.9)), chances[None] / chances.sum()


@settings(max_examples=60, deadline=None)
@given(clients(), st.sampled_from(LEAVING))
def test_moments_are_those_of_the_law(client, leaving):
    pi, lam, table = client
    times, law = work_times(pi, lam, table, leaving), work_law(read_clients(pi, lam, table, leaving))
    ticks = np.arange(law.shape[1])
    assert law.sum() == pytest.approx(1, abs=1e-9)
    assert times.mean == pytest.approx(law @ ticks, rel=1e-6, abs=1e-9)
    assert times.second == pytest.approx(law @ ticks**2, rel=1e-5, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(clients())
def test_lost_work_is_begun_again(client):
    """`span` leaves out the waits to be asked again, and so does the law of who starts as soon as it is there."""
    pi, lam, table = client
    times, law = work_times(pi, lam, table, "abort"), span_law(read_clients(pi, lam, table, "abort"))
    ticks = np.arange(law.shape[1])
    assert times.span == pytest.approx(law @ ticks, rel=1e-6, abs=1e-9)
    assert times.span_second == pytest.approx(law @ ticks**2, rel=1e-4, abs=1e-9)


def test_by_hand():
    """π = ½, λ = 0, D = 2: away at the end with ½, then 2 more ticks on average; paused: 2 returns of 2 ticks."""
    assert work_times(0.5, 0.0, [2]).mean == pytest.approx([2 + 0.5 * 2])
    assert work_times(0.5, 0.0, [2], "pause").mean == pytest.approx([4])
    lost = work_times(0.5, 0.0, [2], "abort")  # ¼ succeeds after 2 ticks; 3 failures, of 1 tick with 2/3, 2 with 1/3
    assert lost.asks == pytest.approx([4])
    assert lost.mean == pytest.approx([2])
    assert lost.span == pytest.approx([2 + 3 * (4 / 3 + 2)])
    assert lost.places == pytest.approx([3 + 3 * (4 / 3 + 1)])


def test_work_that_is_answered_from_anywhere_takes_its_duration():
    times = work_times(0.5, 0.9, [[0.5, 0.0, 0.5]], "answer")
    assert (times.mean, times.second, times.places) == (pytest.approx([1]), pytest.approx([2]), pytest.approx([2]))


@settings(max_examples=30, deadline=None)
@given(clients())
def test_work_of_no_duration_or_of_who_never_leaves(client):
    pi, lam, table = client
    for leaving in LEAVING:
        assert work_times(pi, lam, [0], leaving).places == pytest.approx([1])
        always = work_times(1.0, 0.0, table, leaving)
        assert always.mean == pytest.approx(table @ np.arange(table.shape[1]))
        assert always.asks == pytest.approx([1])


@pytest.mark.parametrize("leaving", LEAVING)
def test_as_played(leaving):
    """One client that is asked whenever it is idle: a step per update, so ticks per step are span + 1 + return."""
    pi, lam, table = (part[:1] for part in random_world(1, 4, longest=5))
    played = play(Buffered(1), pi, lam, table, leaving, ticks=3000, worlds=60)
    times, u = work_times(pi, lam, table, leaving), (1 - lam) * pi
    assert played.ticks_per_step == pytest.approx(float((times.span + 1 + (1 - pi) * (1 - lam) / u)[0]), rel=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: work_times(0.5, 0.0, [-1]), "client 0 has durations = -1"),
        (lambda: work_times(0.5, 0.0, [0.5]), "client 0 has durations = 0.5"),
        (lambda: work_times(0.5, 0.0, [10**6]), "client 0 has durations = 1000000: must be at most 100,000 ticks"),
        (lambda: work_times(0.5, 0.0, [[0.5, 0.4]]), "client 0 has durations that add up to 0.9"),
        (lambda: work_times(0.5, 0.0, [[1.5, -0.5]]), "client 0 has durations with -0.5"),
        (lambda: work_times(0.5, 0.0, []), "durations has shape"),
        (lambda: work_times(0.0, 0.0, [1, 1]), "client 0 has pi = 0"),
        (lambda: work_times([0.5, 0.5, 0.5], 0.0, [1, 1]), "pi has 3 values for 2 clients"),
        (lambda: work_times(0.9, -0.5, [1]), "lam must lie in"),
        (lambda: clocked_arrivals(0.9, 0.0, [1], 2, "answer"), "no formula where a clock decides; audit it"),
        (lambda: buffered_arrivals(0.9, 0.0, [1] * 6, 3, leaving="answer"), "no formula where buffers hold more than"),
        (lambda: work_times(0.5, -1.0, [1], "abort"), "client 0 ends its work with probability 0"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
