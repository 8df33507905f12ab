import numpy as np
import pytest

from turnout.strategies import UniformSampling


def test_the_sampled_stand_for_all_that_are_there(play):
    game = play(UniformSampling(cohort=1), importance=(1.0, 1.0, 2.0))
    moved = game.round([1, 1, 0], [4.0, 4.0, 100.0])
    assert moved == pytest.approx(2 / 1 * 0.25 * 4.0)


def test_the_divisor_is_the_number_sampled_not_received(play):
    game = play(UniformSampling(cohort=3))
    assert game.round([1, 1, 1], [3.0, 3.0, 3.0], arrived=[1, 0, 0]) == pytest.approx(1.0)


def test_the_direction_is_unbiased(play):
    moves = [play(UniformSampling(cohort=2), root=root).round([1, 1, 1], [1.0, 2.0, 6.0]) for root in range(100)]
    assert np.mean(moves) == pytest.approx(3.0, abs=5 * np.std(moves) / np.sqrt(100))
