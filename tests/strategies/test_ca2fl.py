import pytest

from rules_in_time import Ca2fl
from slow_fleet import CASES, check_against
from turnout.strategies import CA2FL


def test_the_mean_before_the_buffer_and_what_has_changed(play):
    game = play(CA2FL(), importance=(1.0, 1.0), lr=0.5)
    assert game.round([1, 0], [2.0, 0.0], rates=[0.5, 0.5]) == pytest.approx(2.0)  # h = 4, 0 per unit of rate
    # mean 2; the second is 3 / 0.25 = 12
    assert game.round([0, 1], [0.0, 3.0], rates=[0.5, 0.25]) == pytest.approx(2.0 + 0.5 * (2.0 + 12.0))
    # mean 8, both come: changes 6 - 4 and 4 - 12
    assert game.round([1, 1], [3.0, 2.0]) == pytest.approx(9.0 + 0.5 * (8.0 + (2.0 - 8.0) / 2))


def test_targets(play):
    game = play(CA2FL(), importance=(1.0, 3.0), lr=1.0)
    assert game.round([1, 1], [4.0, 8.0]) == pytest.approx((0.5 * 4.0 + 1.5 * 8.0) / 2)
    assert game.round([1, 0], [8.0, 0.0]) == pytest.approx(7.0 + 7.0 + 0.5 * 4.0)


def test_an_empty_round_leaves_the_model(play):
    game = play(CA2FL(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    before = game.round([1, 1, 0], [1.0] * 3)
    assert game.round([0, 0, 0], [1.0] * 3) == before


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    check_against(Ca2fl(), CA2FL(), pace, leaving)
