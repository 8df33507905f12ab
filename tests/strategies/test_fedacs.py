import jax.numpy as jnp
import numpy as np
import pytest
from naive import fedacs_odds

from turnout.strategies import FedACS
from turnout.strategies.sampling import with_replacement
from turnout.streams import Stream, round_key


def test_every_draw_counts_one_over_the_number_of_draws(play):
    game = play(FedACS(cohort=2), importance=(0.0, 1.0, 1.0))
    assert game.round([1, 1, 0], [5.0, 7.0, 5.0]) == pytest.approx(7.0)  # both draws are client 1
    assert game.round([1, 1, 0], [5.0, 7.0, 5.0], arrived=[1, 0, 1]) == pytest.approx(7.0)
    game.round([0, 0, 0], [5.0] * 3)
    assert not game.asked.any()


def test_fifty_rounds_client_by_client(play):
    """The same draws from the odds of equation 15; links and reach tell clients apart, empty rounds included."""
    draw = np.random.default_rng(6)
    importance = draw.uniform(0.5, 2.0, 6).astype(np.float32)
    success, reach = draw.uniform(0.3, 1.0, 6).astype(np.float32), draw.integers(1, 9, 6).astype(np.float32)
    game = play(FedACS(cohort=4), importance=tuple(importance), success=success, reach=reach)
    for t in range(50):
        available = (draw.random(6) < 0.6) & (t % 8 != 0)
        arrived, updates = draw.random(6) < success, draw.normal(size=6)
        odds = fedacs_odds(importance / importance.sum(), success, reach, available)
        key = round_key(game.root, Stream.SELECT, t)
        copies = np.asarray(with_replacement(key, jnp.asarray(odds, jnp.float32), 4, 4))
        before = float(game.state.params[0])
        wanted = before + sum(copies[k] * updates[k] / 4 for k in range(6) if arrived[k])
        assert game.round(available, updates, arrived=arrived) == pytest.approx(wanted, abs=1e-4)


def test_effective_weights_are_the_target(play):
    """E[copies] (1 - q) ‖a‖₁ / K is proportional to ω, over many draws."""
    success, reach = np.array([1.0, 0.5, 0.25], np.float32), np.array([1.0, 4.0, 2.0], np.float32)
    odds = np.array(fedacs_odds([0.2, 0.3, 0.5], success, reach, [True] * 3))
    weight = odds * success * reach
    np.testing.assert_allclose(weight / weight.sum(), [0.2, 0.3, 0.5])
    game = play(FedACS(cohort=3), importance=(2.0, 3.0, 5.0), success=success, reach=reach)
    drawn = np.zeros(3)
    for _ in range(200):
        game.round([1, 1, 1], [0.0] * 3)
        drawn += np.asarray(jnp.zeros(3).at[game.cohort.ids].add(game.cohort.copies, mode="drop"))
    np.testing.assert_allclose(drawn / 600, odds, atol=4 * 0.5 / 600**0.5)
