import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, COUNT, FLEET, check_against, check_in_rounds
from turnout.strategies import CA2FL, FedAU, FedStale, FedStaleAsync

EVEN = 10  # as many rounds as fleets need to be heard about equally often


class Stale:
    """The paper's step, client by client: Σ_S α/p Δ + β (Σ α h - Σ_S α/p h), then h ← Δ for S.

    1/p is the mean of the intervals between a client's updates so far, 1 before its first, unless p is given.
    """

    def __init__(self, beta, rates=None, cutoff=50, fleet=FLEET):
        self.beta, self.rates, self.cutoff, self.share = beta, rates, cutoff, fleet.share
        self.h = np.zeros((len(self.share), fleet.centres.shape[1]))
        self.gap, self.intervals = np.zeros(len(self.share)), [[] for _ in self.share]

    def usual(self, k):
        return 1 / self.rates[k] if self.rates is not None else np.mean(self.intervals[k] or [1.0])

    def __call__(self, model, step):
        fresh = {job.client: job.update(step.fleet) / job.lr for job in step.jobs if job.steps}
        move = self.beta * (self.share @ self.h)
        for k, own in fresh.items():
            move = move + self.share[k] * self.usual(k) * (own - self.beta * self.h[k])
            self.h[k] = own
        self.gap += 1
        for k in range(len(self.share)):
            if k in fresh or self.gap[k] >= self.cutoff:
                self.intervals[k].append(self.gap[k])
                self.gap[k] = 0
        return model + step.lr * move if step.jobs else model


def test_fresh_by_frequency_and_the_memory_in_part(play):
    """x + Σ_S α/p Δ + β (Σ α h - Σ_S α/p h)."""
    game = play(FedStale(beta=0.5, rates=[0.5, 0.25]), importance=(1.0, 3.0), lr=1.0)
    assert game.round([1, 0], [2.0, 0.0]) == pytest.approx(0.5 * 2.0)
    assert game.round([0, 1], [0.0, 1.0]) == pytest.approx(1.0 + 3.0 * 1.0 + 0.5 * 0.25 * 2.0)
    expected = 4.25 + 0.5 * 4.0 + 0.5 * (0.25 * 2.0 + 0.75 * 1.0 - 0.5 * 2.0)
    assert game.round([1, 1], [4.0, 9.0], arrived=[1, 0]) == pytest.approx(expected)


def test_updates_are_remembered_per_unit_of_rate(play):
    game = play(FedStale(beta=1.0, rates=1.0), importance=(1.0,), lr=0.5)
    game.round([1], [2.0], rates=[0.25])
    assert game.round([1], [3.0]) == pytest.approx(0.5 * 8.0 + 3.0)


def test_an_empty_round_leaves_the_model(play):
    game = play(FedStale(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    before = game.round([1, 1, 0], [1.0] * 3)
    assert game.round([0, 0, 0], [1.0] * 3) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FedStale(beta=0.0, cutoff=4.0), FedAU(cutoff=4.0)),
        (FedStale(beta=0.7), FedStaleAsync(stale=0.7)),
        (FedStale(beta=0.7, rates=0.3), FedStaleAsync(stale=0.7, rates=0.3)),
    ],
    ids=["no memory: FedAU", "constants of FedStaleAsync", "known rates"],
)
def test_it_is_a_method_that_is_known(one, other, play, weather):
    rival = play(other, weather.importance)

    def naive(t, came):
        rival.lr = weather.lrs[t]
        return rival.round(weather.available[t], lambda starts: weather.pull(t, starts), weather.arrived[t])

    weather.compare(play(one, weather.importance), naive)


def test_with_all_of_the_memory_and_two_of_four_in_each_round_it_is_ca2fl(play):
    draw = np.random.default_rng(2)
    one, other = (play(strategy, (1.0, 2.0, 1.0, 3.0)) for strategy in (FedStale(beta=1.0, rates=0.5), CA2FL()))
    for _ in range(EVEN):
        came, updates = draw.permutation([1, 1, 0, 0]), draw.normal(size=4)
        assert one.round(came, updates) == pytest.approx(other.round(came, updates), abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rates": [0.5, 0.5]}, "rates must be one number or 3"),
        ({"rates": [0.5, 0.0, 1.0]}, "rates must be above 0 and at most 1, not 0"),
        ({"beta": 1.5}, "beta must be"),
        ({"cutoff": 0.5}, "cutoff must be"),
    ],
)
def test_refused(play, wrong, message):
    with pytest.raises(ValueError, match=message):
        play(FedStale(**wrong))


def test_as_the_papers_box_in_plain_loops():
    check_in_rounds(Stale(0.5, cutoff=4), FedStale(cutoff=4.0))


@pytest.mark.variant
def test_known_rates_as_plain_loops():
    rates = np.linspace(0.2, 0.6, COUNT).tolist()
    check_in_rounds(Stale(0.8, rates), FedStale(beta=0.8, rates=rates))


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(Stale(0.5), FedStale(), pace, leaving)


def test_with_all_of_the_memory_it_settles_where_everybodys_updates_sum_to_zero():
    """The memory takes out the variance of who comes; what is left is the drift of three local steps."""
    fleet = least_squares.regressions()
    goal = least_squares.settled(fleet)
    rates = least_squares.PRESENT.tolist()
    simulated, plain = least_squares.distances(
        FedStale(beta=1.0, rates=rates), Stale(1.0, rates, fleet=fleet), fleet, goal=goal
    )
    assert plain < 1e-6
    assert simulated < least_squares.FLOOR
