import numpy as np
import pytest

from turnout.strategies import FedAU


def test_weights_are_mean_intervals_that_end_before_the_round(play):
    game = play(FedAU(), importance=(1.0, 3.0))
    assert game.round([1, 0], [1.0, 0.0]) == pytest.approx(0.25)  # no interval yet: weight 1
    assert game.round([0, 1], [0.0, 1.0]) == pytest.approx(0.25 + 0.75)
    assert game.round([0, 1], [0.0, 1.0]) == pytest.approx(1.0 + 0.75 * 2)  # came after 2 rounds
    assert game.round([1, 1], [1.0, 1.0]) == pytest.approx(2.5 + 0.25 * 1 + 0.75 * 1.5)  # 1; mean of 2 and 1
    assert game.round([1, 0], [1.0, 0.0]) == pytest.approx(3.875 + 0.25 * 2)  # mean of 1 and 3


def test_an_absence_is_cut_off_and_counts_as_an_interval(play):
    game = play(FedAU(cutoff=2.0), importance=(1.0,))
    for _ in range(5):
        game.round([0], [0.0])  # intervals 2, 2, and one round of a third
    np.testing.assert_allclose([game.state.strategy.total, game.state.strategy.count], [[4.0], [2.0]])
    assert game.round([1], [1.0]) == pytest.approx(2.0)
    assert float(game.state.strategy.total[0]) == 6.0


def test_a_lost_upload_is_an_absence(play):
    game = play(FedAU(), importance=(1.0,))
    game.round([1], [1.0], arrived=[0])
    game.round([1], [0.0])
    assert game.round([1], [1.0]) == pytest.approx(2.0)


def test_of_a_cohort_only_the_drawn_take_part_and_the_others_wait(play):
    game = play(FedAU(cohort=1), importance=(1.0, 1.0))
    moves = np.diff([0.0, *(game.round([1, 1], [1.0, 1.0]) for _ in range(40))])
    assert moves[0] == pytest.approx(0.5)
    assert moves[20:].mean() == pytest.approx(1.0, abs=0.2)  # one of two, at twice the weight


def test_an_empty_round_leaves_the_model(play):
    assert play(FedAU(), start=4.0).round([0, 0, 0], [1.0, 1.0, 1.0]) == 4.0


def test_a_cutoff_below_one_round_is_refused(play):
    with pytest.raises(ValueError, match="cutoff must be a number of 1 or more"):
        play(FedAU(cutoff=0.5))


@pytest.mark.parametrize("cutoff", [3, 1000])
def test_as_the_reference_code(play, weather, cutoff):
    """The per-client loop of the authors' code."""
    intervals = [[] for _ in weather.importance]
    gaps = [0] * len(weather.importance)
    model = 0.0

    def naive(t, came):
        nonlocal model
        updates = weather.pull(t, model)
        for k in range(len(gaps)):
            if came[k]:
                weight = np.mean(intervals[k]) if intervals[k] else 1.0
                model += weather.target[k] * weight * updates[k]
                intervals[k].append(gaps[k] + 1)
                gaps[k] = 0
            else:
                gaps[k] += 1
                if gaps[k] >= cutoff:
                    intervals[k].append(gaps[k])
                    gaps[k] = 0
        return model

    weather.compare(play(FedAU(cutoff=cutoff), weather.importance), naive)
