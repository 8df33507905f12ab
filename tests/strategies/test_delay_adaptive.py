import pytest

from rules_in_time import DelayAdaptive as Twin
from slow_fleet import CASES, check_against
from turnout.strategies import DelayAdaptive


def test_only_what_is_older_than_usual_counts_less(play):
    game = play(DelayAdaptive(usual_age=2.0), importance=(1.0, 1.0, 2.0))
    found = game.round([1, 1, 1], [4.0, 8.0, 2.0], ages=[1, 8, 2], goal=2)
    assert found == pytest.approx((0.75 * 4.0 + 0.75 * 8.0 / 4 + 1.5 * 2.0) / 2)


def test_the_mean_age_so_far(play):
    game = play(DelayAdaptive(), importance=(1.0, 1.0))
    assert game.round([1, 1], [4.0, 8.0], ages=[1, 3]) == pytest.approx((4.0 + 8.0 * 2 / 3) / 2)
    before = float(game.state.params[0])
    assert game.round([1, 0], [4.0, 0.0], ages=[8, 0]) == pytest.approx(before + 4.0 * 4 / 8)  # (1 + 3 + 8) / 3


def test_fresh_updates_count_in_full(play):
    assert play(DelayAdaptive(), importance=(1.0, 1.0)).round([1, 1], [4.0, 8.0]) == pytest.approx(6.0)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(DelayAdaptive(), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


def test_a_usual_age_of_zero_is_refused(play):
    with pytest.raises(ValueError, match="usual_age must be a positive number, not 0"):
        play(DelayAdaptive(usual_age=0))


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    check_against(Twin(), DelayAdaptive(), pace, leaving)


@pytest.mark.variant
def test_a_given_age_as_plain_loops():
    check_against(Twin(2.0), DelayAdaptive(usual_age=2.0), *CASES[0].values)
