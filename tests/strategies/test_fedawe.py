import numpy as np
import pytest

from turnout.strategies import FedAWE


def test_missed_rounds_are_echoed_from_the_own_model(play):
    game = play(FedAWE(), importance=(1.0, 1.0))
    assert game.round([1, 0], [2.0, 0.0]) == pytest.approx(2.0)  # x = 2, 0
    assert float(game.server.model(game.state)[0]) == pytest.approx(1.0)
    assert game.round([1, 0], [1.0, 0.0]) == pytest.approx(3.0)  # x = 3, 0
    assert game.round([0, 1], [0.0, 4.0]) == pytest.approx(0.0 + 3 * 4.0)  # three rounds, from its own 0
    assert float(game.server.model(game.state)[0]) == pytest.approx((3.0 + 12.0) / 2)
    assert game.round([1, 1], [1.0, 1.0]) == pytest.approx(((3.0 + 2 * 1.0) + (12.0 + 1.0)) / 2)


def test_averaging_leaves_the_model_that_is_evaluated(play):
    game = play(FedAWE(), importance=(1.0, 3.0, 2.0))
    game.round([1, 0, 0], [2.0, 0.0, 0.0])
    before = float(game.server.model(game.state)[0])
    game.round([1, 1, 0], [0.0, 0.0, 0.0])
    assert float(game.server.model(game.state)[0]) == pytest.approx(before)


def test_a_lost_upload_keeps_its_model_and_its_missed_rounds(play):
    game = play(FedAWE(echo_rate=0.5), importance=(1.0, 1.0), start=1.0)
    assert game.round([1, 1], [2.0, 2.0], arrived=[1, 0]) == pytest.approx(2.0)
    np.testing.assert_allclose(game.state.strategy.models[:, 0], [2.0, 1.0])
    np.testing.assert_allclose(game.state.strategy.away, [0.0, 1.0])


def test_an_empty_round_changes_nothing_but_the_count(play):
    game = play(FedAWE(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    np.testing.assert_allclose(game.state.strategy.models, 4.0)


def test_as_the_reference_code(play, weather):
    """The per-client loop of the authors' code, with target weights."""
    models, last = np.zeros(len(weather.importance)), -np.ones(len(weather.importance))
    server = 0.0

    def naive(t, came):
        nonlocal server
        if came.any():
            sent, weight = 0.0, 0.0
            for k in np.flatnonzero(came):
                step = weather.pull(t, models)[k]
                sent += weather.target[k] * (models[k] + (t - last[k]) * step)
                weight += weather.target[k]
            server = sent / weight
            models[came], last[came] = server, t
        return server

    game = play(FedAWE(), weather.importance)
    weather.compare(game, naive)
    assert float(game.server.model(game.state)[0]) == pytest.approx(float(weather.target @ models), abs=2e-5)
