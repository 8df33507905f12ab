import pytest

from rules_in_time import fedasync
from slow_fleet import CASES, check_against
from turnout.strategies import FedAsync


def test_one_arrival_is_mixed_in_by_its_age(play):
    game = play(FedAsync(mixing=0.5), start=2.0)
    # w_1 = 1 + 3 = 4, a = 0.5 / sqrt(4)
    found = game.round([0, 1, 0], [0.0, 3.0, 0.0], ages=[0, 3, 0], starts=[0.0, 1.0, 0.0])
    assert found == pytest.approx(0.75 * 2.0 + 0.25 * 4.0)


def test_several_share_what_they_mix_in_one_after_another(play):
    game = play(FedAsync(mixing=0.5, discount="constant"), importance=(1.0, 1.0), start=8.0)
    found = game.round([1, 1], [1.0, 1.0], starts=[1.0, 3.0])
    assert found == pytest.approx(0.25 * 8.0 + 0.375 * 2.0 + 0.375 * 4.0)


def test_the_hinge(play):
    game = play(FedAsync(mixing=1.0, discount="hinge", slope=2.0, within=1.0), importance=(1.0, 1.0))
    assert game.round([1, 0], [4.0, 0.0], ages=[1, 0], starts=[0.0, 0.0]) == pytest.approx(4.0)
    assert game.round([1, 0], [4.0, 0.0], ages=[3, 0], starts=[10.0, 0.0]) == pytest.approx(0.8 * 4.0 + 0.2 * 14.0)


def test_updates_of_the_present_model_need_no_starts(play):
    game = play(FedAsync(mixing=0.5), importance=(1.0,), start=2.0)
    assert game.round([1], [4.0]) == pytest.approx(4.0)


def test_a_mixing_rate_above_one_is_cut(play):
    """N α = 1.5 for the second: the model is replaced, not more."""
    game = play(FedAsync(mixing=1.0), importance=(1.0, 3.0), start=2.0)
    assert game.round([0, 1], [0.0, 4.0]) == pytest.approx(6.0)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(FedAsync(), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


def test_refused(play):
    with pytest.raises(ValueError, match=r"mixing must be above 0 and at most 1, not 1\.5"):
        play(FedAsync(mixing=1.5))


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    check_against(fedasync(lambda age: (1 + age) ** -0.5), FedAsync(mixing=0.3), pace, leaving)


@pytest.mark.variant
def test_the_hinge_as_plain_loops():
    hinge = fedasync(lambda age: 1.0 if age <= 2 else 1 / (3 * (age - 2) + 1))
    strategy = FedAsync(mixing=0.3, discount="hinge", slope=3.0, within=2.0)
    check_against(hinge, strategy, *CASES[0].values)
