import numpy as np
import pytest

from turnout.strategies import NormSampling


def test_a_single_speaker_is_always_drawn(play):
    game = play(NormSampling(cohort=2))
    assert game.round([1, 1, 1], [0.0, 6.0, 0.0]) == pytest.approx(2.0)
    np.testing.assert_array_equal(game.asked, [False, True, False])


def test_draws_by_length_make_every_draw_say_the_same(play):
    game = play(NormSampling(cohort=3))
    assert game.round([1, 1, 1], [1.0, 2.0, 6.0]) == pytest.approx(3.0, rel=1e-5)
    assert float(game.cohort.copies.sum()) == 3.0


def test_what_is_lost_counts_as_nothing(play):
    game = play(NormSampling(cohort=1))
    assert game.round([1, 1, 1], [2.0, 2.0, 2.0], arrived=[0, 0, 0]) == 0.0
