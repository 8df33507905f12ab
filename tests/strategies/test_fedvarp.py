import numpy as np
import pytest

from turnout.strategies import FedVARP


def test_fresh_minus_remembered_plus_the_mean_of_the_remembered(play):
    game = play(FedVARP(), importance=(1.0, 1.0))
    assert game.round([1, 0], [2.0, 0.0]) == pytest.approx(2.0)
    assert game.round([0, 1], [0.0, 6.0]) == pytest.approx(2.0 + 6.0 + 1.0)  # memory 2, 0
    assert game.round([1, 0], [4.0, 0.0]) == pytest.approx(9.0 + (4.0 - 2.0) + 4.0)  # memory 2, 6
    assert game.round([1, 1], [5.0, 7.0]) == pytest.approx(15.0 + 6.0)


def test_target_weights_and_lost_uploads(play):
    game = play(FedVARP(), importance=(1.0, 3.0))
    assert game.round([1, 1], [4.0, 8.0]) == pytest.approx(7.0)
    assert game.round([1, 1], [8.0, 0.0], arrived=[1, 0]) == pytest.approx(7.0 + (8.0 - 4.0) + 7.0)


def test_memory_follows_the_learning_rate(play):
    game = play(FedVARP(), importance=(1.0, 1.0), lr=0.1)
    game.round([1, 1], [2.0, 4.0])
    before = float(game.state.params[0])
    game.lr = 0.05
    assert game.round([1, 0], [1.0, 0.0]) == pytest.approx(before + 0.0 + 0.5 * 3.0)


def test_an_empty_round_leaves_the_model(play):
    game = play(FedVARP())
    before = game.round([1, 1, 0], [2.0, 4.0, 1.0])
    assert game.round([0, 0, 0], [1.0] * 3) == before


def test_a_cohort_that_the_fleet_cannot_fill_is_refused(play):
    with pytest.raises(ValueError, match="between 1 and the 3 clients"):
        play(FedVARP(cohort=4))


def test_as_a_naive_server(play, weather):
    memory = np.zeros(len(weather.importance))
    model = 0.0

    def naive(t, came):
        nonlocal model
        if not came.any():
            return model
        fresh = weather.pull(t, model) / weather.lrs[t]
        share = weather.target * came / weather.target[came].sum()
        model = model + weather.lrs[t] * (sum(share * (fresh - memory)) + sum(weather.target * memory))
        memory[came] = fresh[came]
        return model

    weather.compare(play(FedVARP(), weather.importance), naive)
