import pytest

from turnout.strategies import AdaFed


def test_weights_are_normalised_over_the_available(play):
    game = play(AdaFed(), pi=[0.5, 0.25, 1.0])
    assert game.round([1, 1, 0], [3.0, 6.0, 100.0]) == pytest.approx((2 * 3 + 4 * 6) / 6)
    before = float(game.state.params[0])
    assert game.round([0, 0, 1], [3.0, 6.0, 7.0]) == pytest.approx(before + 7.0)


def test_a_lost_upload_does_not_change_the_others_weights(play):
    game = play(AdaFed(), pi=[0.5, 0.5, 0.5])
    assert game.round([1, 1, 0], [4.0, 4.0, 4.0], arrived=[1, 0, 0]) == pytest.approx(2.0)
