import pytest

from rules_in_time import fedbuff
from slow_fleet import CASES, check_against
from turnout.strategies import FedBuff


def test_the_sum_over_the_size_of_the_buffer_discounted_by_age(play):
    game = play(FedBuff(), importance=(1.0, 1.0, 2.0))
    # N α = 0.75, 0.75, 1.5; discounts 1, 1/2
    found = game.round([1, 0, 1], [4.0, 9.0, 8.0], ages=[0, 0, 3], goal=4)
    assert found == pytest.approx((0.75 * 4.0 + 0.5 * 1.5 * 8.0) / 4)


def test_without_a_buffer_the_mean_of_what_has_arrived(play):
    game = play(FedBuff(exponent=0.0))
    assert game.round([1, 1, 1], [1.0, 3.0, 9.0], arrived=[1, 1, 0], ages=[0, 7, 0]) == pytest.approx(2.0)


def test_what_is_too_old_is_not_used(play):
    game = play(FedBuff(exponent=0.0, oldest=2))
    assert game.round([1, 1, 0], [1.0, 3.0, 0.0], ages=[2, 3, 0], goal=2) == pytest.approx(0.5)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(FedBuff(), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


@pytest.mark.parametrize("wrong", [{"exponent": -1.0}, {"oldest": -1}])
def test_numbers_below_zero_are_refused(play, wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a number of 0 or more, not -1"):
        play(FedBuff(**wrong))


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    check_against(fedbuff, FedBuff(), pace, leaving)
