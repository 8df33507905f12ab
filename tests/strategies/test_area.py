import numpy as np
import pytest

import turnout
from rules_in_time import Area
from slow_fleet import CASES, check_against
from turnout import availability, durations
from turnout.strategies import AREA


def test_the_model_is_the_mean_of_the_last_models(play):
    game = play(AREA(), importance=(1.0, 3.0), start=2.0)
    assert game.round([1, 0], [4.0, 9.0]) == pytest.approx(2.0 + 0.25 * 4.0)  # ended with 6, 2
    assert game.round([0, 1], [0.0, 4.0]) == pytest.approx(3.0 + 0.75 * (7.0 - 2.0))  # 6, 7
    assert game.round([1, 1], [1.0, -2.0]) == pytest.approx(0.25 * 7.75 + 0.75 * 4.75)


def test_an_old_model_counts_from_its_own_start(play):
    game = play(AREA(), importance=(1.0, 1.0), start=0.0)
    game.round([1, 0], [4.0, 0.0])
    assert game.round([0, 1], [0.0, 6.0], ages=[0, 1], starts=[0.0, 0.0]) == pytest.approx((4.0 + 6.0) / 2)


def test_an_empty_round_leaves_the_model(play):
    game = play(AREA(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    before = game.round([1, 1, 0], [1.0] * 3)
    assert game.round([0, 0, 0], [1.0] * 3) == before


def test_work_of_nothing_leaves_the_last_model(play):
    game = play(AREA(), importance=(1.0, 1.0), reach=[1.0, 0.0])
    assert game.round([1, 1], [2.0, 8.0]) == pytest.approx(1.0)


def test_slow_clients_count_as_the_target_says():
    """Each client's share of the movement is its target, however rarely it comes; by formula and as played."""
    slow = durations.fixed(6, [0, 1, 2, 4, 7, 11])
    world = turnout.World(availability.bernoulli(6, 1.0), durations=slow)
    pace = turnout.Buffered(size=2)
    importance = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
    audit = turnout.audit(world, AREA(), rounds=3000, pace=pace, importance=importance)
    (entry,) = audit.entries
    np.testing.assert_allclose(entry.weights, np.array(importance) / 9, atol=0.01)
    np.testing.assert_allclose(entry.formula, np.array(importance) / 9)


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    check_against(Area(), AREA(), pace, leaving)
