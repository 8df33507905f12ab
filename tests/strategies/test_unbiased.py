import pytest

from turnout.strategies import Unbiased


def test_weights_are_target_over_availability_and_not_normalised(play):
    game = play(Unbiased(), importance=(1.0, 1.0, 2.0), pi=[0.5, 0.25, 1.0])
    assert game.round([1, 1, 0], [1.0, 2.0, 100.0]) == pytest.approx(0.25 / 0.5 * 1 + 0.25 / 0.25 * 2)
    assert game.round([0, 0, 1], [1.0, 2.0, 4.0]) == pytest.approx(2.5 + 0.5 * 4)


def test_a_lost_upload_counts_as_nothing(play):
    assert play(Unbiased()).round([1, 1, 1], [3.0, 3.0, 3.0], arrived=[1, 0, 0]) == pytest.approx(3.0 / 3 / 0.5)
