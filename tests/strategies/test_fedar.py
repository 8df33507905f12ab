import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, FLEET, check_against, check_in_rounds
from turnout.strategies import MIFA, FedAR


class AR:
    """x ← x + η/N_t Σ ψ(age_i) G_i over the clients that have appeared, each by its share instead of 1/N_t."""

    def __init__(self, psi, fleet=FLEET):
        self.psi, self.share, self.words = psi, fleet.share, {}

    def __call__(self, model, step):
        for job in step.jobs:
            if job.steps:
                self.words[job.client] = job.version, job.update(step.fleet) / job.lr
        if not step.jobs or not self.words:
            return model
        appeared = sum(self.share[k] for k in self.words)
        move = sum(self.share[k] * self.psi(step.version - made) * word for k, (made, word) in self.words.items())
        return model + step.lr * move / appeared


def polynomial(age):
    return (1 + age) ** -0.5


def hinge(age):
    return 1.0 if age <= 2 else 1 / (0.5 * (age - 2) + 1)


def test_the_table_counts_by_age_and_only_clients_that_have_come(play):
    game = play(FedAR(discount="polynomial", exponent=1.0), importance=(1.0, 3.0))
    assert game.round([1, 0], [2.0, 9.0]) == pytest.approx(2.0)
    assert game.round([0, 1], [9.0, 4.0]) == pytest.approx(2.0 + 0.25 * 2.0 / 2 + 0.75 * 4.0)
    assert game.round([0, 1], [9.0, 8.0]) == pytest.approx(5.25 + 0.25 * 2.0 / 3 + 0.75 * 8.0)


def test_the_age_is_that_of_the_start(play):
    game = play(FedAR(discount="hinge", slope=1.0, within=1.0), importance=(1.0, 1.0), lr=1.0)
    assert game.round([1, 0], [2.0, 0.0], ages=[3, 0]) == pytest.approx(2.0 / 3)


def test_an_empty_round_leaves_the_model(play):
    game = play(FedAR(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    before = game.round([1, 1, 0], [1.0] * 3)
    assert game.round([0, 0, 0], [1.0] * 3) == before


def test_without_a_discount_it_is_mifa_once_all_have_come(play, weather):
    rival, seen = play(MIFA(), weather.importance), np.zeros(len(weather.importance), bool)
    game = play(FedAR(), weather.importance)
    for t in range(weather.rounds):
        game.lr = rival.lr = weather.lrs[t]
        updates = weather.pull(t, np.zeros(len(seen)))
        before = float(game.state.params[0]), float(rival.state.params[0])
        found = [each.round(weather.available[t], updates, weather.arrived[t]) for each in (game, rival)]
        seen |= weather.available[t] & weather.arrived[t]
        if seen.any():
            share = weather.target[seen].sum()
            assert found[0] - before[0] == pytest.approx((found[1] - before[1]) / share, abs=2e-5)
    assert seen.all()


@pytest.mark.parametrize(("wrong", "message"), [({"exponent": -1.0}, "exponent must be"), ({"within": -1.0}, "within")])
def test_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        FedAR(**wrong)


@pytest.mark.parametrize(
    ("psi", "strategy"),
    [
        (lambda age: 1.0, FedAR()),
        pytest.param(polynomial, FedAR(discount="polynomial"), marks=pytest.mark.variant),
        pytest.param(hinge, FedAR(discount="hinge", within=2.0), marks=pytest.mark.variant),
    ],
    ids=["constant", "polynomial", "hinge"],
)
def test_as_the_rule_in_plain_loops(psi, strategy):
    check_in_rounds(AR(psi), strategy)


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(AR(hinge), FedAR(discount="hinge", within=2.0), pace, leaving)


def test_without_a_discount_it_settles_where_everybodys_updates_sum_to_zero():
    fleet = least_squares.regressions()
    goal = least_squares.settled(fleet)
    simulated, plain = least_squares.distances(FedAR(), AR(lambda age: 1.0, fleet), fleet, goal=goal)
    assert plain < 1e-6
    assert simulated < least_squares.FLOOR


def test_with_a_discount_it_settles_elsewhere():
    """Who comes rarely counts less: further off than the drift, and predicted by no weights of ours."""
    fleet = least_squares.regressions()
    goal = least_squares.settled(fleet)
    simulated, plain = least_squares.distances(FedAR(discount="polynomial"), AR(polynomial, fleet), fleet, goal=goal)
    assert simulated == pytest.approx(plain, rel=1e-2)
    assert plain > 1e-4
