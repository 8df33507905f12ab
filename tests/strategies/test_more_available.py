import numpy as np
import pytest

from turnout.strategies import MoreAvailable


def test_the_less_available_never_train(play):
    game = play(MoreAvailable(), pi=[0.9, 0.1, 0.5])
    assert game.round([1, 1, 1], [1.0, 50.0, 2.0]) == pytest.approx((1 / 0.9 + 2 / 0.5) / 3)
    np.testing.assert_array_equal(game.asked, [True, False, True])
    before = float(game.state.params[0])
    assert game.round([0, 1, 0], [1.0, 50.0, 2.0]) == before


def test_the_threshold_decides(play):
    game = play(MoreAvailable(threshold=0.95), pi=[0.9, 0.1, 1.0])
    game.round([1, 1, 1], [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(game.asked, [False, False, True])
