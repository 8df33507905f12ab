import numpy as np
import pytest

from turnout.strategies import ImportanceSampling


def test_weights_make_up_for_the_odds(play):
    moves = [
        play(ImportanceSampling(cohort=2, odds=[0.1, 0.1, 0.8]), root=root).round([1, 1, 1], [3.0, 6.0, 9.0])
        for root in range(120)
    ]
    assert np.mean(moves) == pytest.approx(6.0, abs=5 * np.std(moves) / np.sqrt(120))


def test_with_the_target_as_odds_every_draw_weighs_the_same(play):
    game = play(ImportanceSampling(cohort=2), importance=(0.0, 1.0, 0.0))
    assert game.round([1, 1, 1], [5.0, 7.0, 5.0]) == pytest.approx(7.0)


def test_a_known_draw_by_hand(play):
    game = play(ImportanceSampling(cohort=1, odds=[1.0, 3.0, 1.0]), importance=(1.0, 1.0, 2.0))
    moved = game.round([0, 1, 0], [9.0, 4.0, 9.0])
    assert moved == pytest.approx(0.25 * 4.0)


@pytest.mark.parametrize(
    ("odds", "message"),
    [
        ([1.0, 2.0], "3 numbers"),
        ([1.0, 0.0, 1.0], r"odds\[1\] must be a finite number above 0, not 0.0"),
        ([1.0, 2.0, float("inf")], r"odds\[2\] must be a finite number above 0, not inf"),
    ],
)
def test_bad_odds_are_refused(play, odds, message):
    with pytest.raises(ValueError, match=message):
        play(ImportanceSampling(cohort=1, odds=odds))
