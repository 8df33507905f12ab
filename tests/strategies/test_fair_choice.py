import numpy as np
import pytest

import turnout
from turnout.strategies import FairChoice
from turnout.world import World, durations


def test_those_furthest_behind_are_asked(play):
    game = play(FairChoice(cohort=1), importance=(1.0, 1.0, 4.0))
    asked = []
    for _ in range(6):
        game.round([1, 1, 1], [3.0, 3.0, 3.0])
        asked.append(int(np.flatnonzero(game.asked)[0]))
    assert asked[0] == 2  # (n + 1) / α = 6, 6, 1.5
    assert np.bincount(asked).tolist() == [1, 1, 4]


def test_who_was_lost_is_asked_again(play):
    game = play(FairChoice(cohort=1), importance=(1.0, 3.0))
    for _ in range(3):
        game.round([1, 1], [1.0, 1.0], arrived=[1, 0])
        assert game.asked.tolist() == [False, True]


def test_all_updates_count_alike(play):
    game = play(FairChoice(), importance=(1.0, 3.0))
    assert game.round([1, 1], [2.0, 4.0]) == pytest.approx(3.0)
    assert game.round([1, 0], [2.0, 4.0], goal=4) == pytest.approx(3.5)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(FairChoice(cohort=2), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


@pytest.mark.parametrize(
    ("odds", "message"), [([1.0, 2.0], "odds must be 3 numbers"), ([1.0, 0.0, 1.0], "odds of client 1 must be above 0")]
)
def test_wrong_odds_are_refused(play, odds, message):
    with pytest.raises(ValueError, match=message):
        play(FairChoice(odds=odds))


COUNT, AT_WORK, TICKS = 20, 5, 4000
LONG = np.repeat([0, 1, 3, 7], 5)  # ticks beyond the first: C* = 20 · mean / max = 9.4 for equal targets
TARGET = np.tile([1.0, 1.0, 1.0, 1.5, 0.5], 4)


def odds_by_hand():
    """Clients that are always there, a buffer of one: each place is free again at once."""
    target = TARGET / TARGET.sum()
    rate = AT_WORK / (target @ (LONG + 1))
    return -np.log1p(-1 / (1 + 1 / (rate * target) - (LONG + 1)))


@pytest.mark.parametrize("odds", [False, pytest.param(True, marks=pytest.mark.variant)])
def test_updates_come_in_proportion_to_the_target(odds):
    task = turnout.tasks.quadratics(num_clients=COUNT, dimension=1)
    task = turnout.tasks.Quadratics.of(task.centres, task.curvature, importance=TARGET.tolist())
    scene = World(
        turnout.availability.bernoulli(COUNT, 1.0), compute=1, durations=durations.fixed(COUNT, LONG.tolist())
    )
    strategy = FairChoice(odds=odds_by_hand().tolist() if odds else None)
    pace = turnout.Buffered(size=1, concurrency=AT_WORK)
    run = turnout.simulate(
        task, scene, strategy, rounds=TICKS, pace=pace, seeds=2, local=turnout.Local(learning_rate=0.01)
    )
    share = run.clients["used"].mean(axis=0) / run.clients["used"].mean(axis=0).sum()
    distance = 0.5 * np.abs(share - TARGET / TARGET.sum()).sum()
    assert distance < (0.04 if odds else 0.005)
    assert run.records["at_work"].max() <= AT_WORK
    even = 0.5 * np.abs(1 / (LONG + 1) / (1 / (LONG + 1)).sum() - TARGET / TARGET.sum()).sum()
    assert even > 0.2  # as it would be with everybody at work
