import numpy as np
import pytest
from played_in_ticks import Buffered, Clocked, play
from random_worlds import clients_of_the_page, random_world

from turnout.theory import (
    buffered_arrivals,
    clocked_arrivals,
    effective_in_time,
    fair_odds,
    most_at_work_by_choice,
    queued_rates,
    round_arrivals,
    total_variation,
    unbiased_coefficients,
    weighing_efficiency,
)


def test_most_at_work_in_closed_form():
    """N mean(d + 1)/max(d + 1) for equal targets of clients that are always there: 36 of the 100 of the page."""
    durations, _ = clients_of_the_page()
    most = most_at_work_by_choice(1.0, 0.0, durations, np.ones(100))
    assert most == pytest.approx(100 * (durations + 1).mean() / (durations + 1).max(), rel=1e-9)
    assert round(most) == 36


def test_alike_clients_leave_the_choice_free():
    """Then any number up to all of them may be at work."""
    assert most_at_work_by_choice(1.0, 0.0, [4] * 10, np.ones(10)) == pytest.approx(10)
    assert fair_odds(1.0, 0.0, [4] * 10, np.ones(10), concurrency=5) == pytest.approx(np.ones(10))


@pytest.mark.parametrize("leaving", ["continue", "pause", "abort"])
def test_fair_odds_are_fair(leaving):
    pi, lam, table = random_world(2, 60, longest=5 if leaving == "abort" else 10)
    target = np.linspace(1, 2, 60)
    cap = int(0.7 * most_at_work_by_choice(pi, lam, table, target, size=2, leaving=leaving))
    odds = fair_odds(pi, lam, table, target, cap, size=2, leaving=leaving)
    found = buffered_arrivals(pi, lam, table, size=2, concurrency=cap, leaving=leaving, odds=odds)
    uniform = buffered_arrivals(pi, lam, table, size=2, concurrency=cap, leaving=leaving)
    assert total_variation(target, found.shares) < 0.01
    assert total_variation(target, uniform.shares) > 0.1


def test_fair_odds_as_played():
    pi, lam, table = random_world(1, 50)
    cap = int(0.6 * most_at_work_by_choice(pi, lam, table, np.ones(50)))
    odds = fair_odds(pi, lam, table, np.ones(50), cap)
    played = play(Buffered(1, cap, odds), pi, lam, table, ticks=2500)
    assert total_variation(np.ones(50), played.share("used")) < 0.017 + 2 * played.noise("used")


def test_beyond_the_most_no_odds_are_fair():
    durations, _ = clients_of_the_page()
    assert fair_odds(1.0, 0.0, durations, np.ones(100), 35).mean() == pytest.approx(1)
    with pytest.raises(ValueError, match=r"concurrency = 37: \d+ clients .* at most 35.86 at work"):
        fair_odds(1.0, 0.0, durations, np.ones(100), 37)


def test_unbiased_coefficients_on_versions():
    pi, lam, table = random_world(1, 30)
    target = np.linspace(1, 3, 30)
    for found in (
        buffered_arrivals(pi, lam, table, size=2, concurrency=10, exponent=0.5),
        clocked_arrivals(pi, lam, table, 6, exponent=0.5),
        round_arrivals(pi, lam, table, 0.8, late="keep", exponent=0.5),
    ):
        coefficients = unbiased_coefficients(found, target)
        assert coefficients.mean() == pytest.approx(1)
        assert effective_in_time(found, coefficients) == pytest.approx(target / target.sum())


def test_efficiency_by_hand():
    """Shares ¾ and ¼ against equal targets: 1/(¼/¾ + ¼/¼) = ¾; the target's own shares lose nothing."""
    found = clocked_arrivals(1.0, 0.0, [0, 2], 1)
    assert found.shares == pytest.approx([0.75, 0.25])
    assert weighing_efficiency(found, [1, 1]) == pytest.approx(0.75)
    assert weighing_efficiency(found, [3, 1]) == pytest.approx(1)


def test_what_is_never_heard_cannot_be_weighed():
    durations, _ = clients_of_the_page()
    found = round_arrivals(1.0, 0.0, durations, quorum=0.5)
    for function in (unbiased_coefficients, weighing_efficiency):
        with pytest.raises(ValueError, match="66 clients with 66% of the target are never heard"):
            function(found, np.ones(100))


def test_coefficients_undo_the_bias_as_played():
    pi, lam, table = random_world(4, 20)
    found = clocked_arrivals(pi, lam, table, 5)
    played = play(Clocked(5), pi, lam, table).used.sum(axis=0) * unbiased_coefficients(found, np.ones(20))
    assert total_variation(np.ones(20), played) < 0.02


def test_queues():
    """One task: it is at client k for a share p_k d_k of the time. Many tasks: the slowest queue rules."""
    rates, queue = queued_rates([1, 3], [2.0, 4.0], 1)
    assert rates == pytest.approx(np.array([0.25, 0.75]) / 3.5)
    assert queue == pytest.approx([0.5 / 3.5, 3 / 3.5])
    rates, queue = queued_rates([1, 3], [2.0, 4.0], 200)
    assert rates[1] == pytest.approx(1 / 4, rel=1e-3)
    assert rates[1] / rates[0] == pytest.approx(3)
    assert queue.sum() == pytest.approx(200)


def test_queues_as_played():
    """Exponential times, event by event: the next to end among the busy is drawn by its rate."""
    chance, service = np.array([0.2, 0.3, 0.5]), np.array([1.0, 4.0, 2.0])
    draw = np.random.default_rng(0)
    queue, clock, ended = np.array([5, 0, 0]), 0.0, np.zeros(3)
    for _ in range(40_000):
        speed = (queue > 0) / service
        clock += draw.exponential(1 / speed.sum())
        done = draw.choice(3, p=speed / speed.sum())
        ended[done] += 1
        queue[done] -= 1
        queue[draw.choice(3, p=chance)] += 1
    assert queued_rates(chance, service, 5)[0] == pytest.approx(ended / clock, rel=0.03)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: most_at_work_by_choice(1.0, 0.0, [1, 2], [1, 0]), "client 1 has target = 0"),
        (lambda: most_at_work_by_choice(1.0, 0.0, [1, 2], [1, 1], size=2), "size = 2: with 2 clients at most 1"),
        (lambda: fair_odds(1.0, 0.0, [1, 2], [1, 1], 0), "concurrency must be a whole number from 1 to"),
        (lambda: queued_rates([1, 1], [1.0, 0.0], 2), "client 1 has durations = 0"),
        (lambda: queued_rates([1, 1], [1.0, 1.0], 0), "tasks must be a whole number from 1 to"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
