import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from naive import NaiveF3AST

from turnout.strategies import F3AST
from turnout.streams import Stream, round_key
from turnout.types import Fleet


def test_two_rounds_by_hand(play):
    """β = ½, one client per round, r starts at p = (½, ¼, ¼), so that all utilities are 1 and availability decides.

    Round 0: only client 0; r = (¾, ⅛, ⅛), weight ½ / ¾. Round 1: 0 and 2, of p/r = ⅔ and 2; r_2 = 9/16, weight 4/9.
    """
    game = play(F3AST(cohort=1, beta=0.5), importance=(2.0, 1.0, 1.0))
    assert game.round([1, 0, 0], [3.0, 0.0, 0.0]) == pytest.approx(3 * 2 / 3)
    np.testing.assert_allclose(game.state.strategy, [3 / 4, 1 / 8, 1 / 8])
    assert game.round([1, 0, 1], [3.0, 0.0, 9.0]) == pytest.approx(2 + 9 * 4 / 9)
    np.testing.assert_allclose(game.state.strategy, [3 / 8, 1 / 16, 9 / 16])
    game.round([0, 0, 0], [1.0] * 3)
    np.testing.assert_allclose(game.state.strategy, [3 / 16, 1 / 32, 9 / 32])


def test_equal_clients_take_turns(play):
    game = play(F3AST(cohort=2, beta=0.1), importance=(1.0,) * 6)
    asked = []
    for _ in range(12):
        game.round([1] * 6, [0.0] * 6)
        asked.append(game.asked)
    np.testing.assert_array_equal(np.array(asked).reshape(4, 3, 6).sum(axis=1), 1)


def test_the_absent_are_never_asked(play):
    game = play(F3AST(cohort=3, beta=0.1), importance=(1.0, 5.0, 1.0, 5.0))
    draw = np.random.default_rng(0)
    for _ in range(20):
        available = draw.random(4) < 0.4
        game.round(available, [0.0] * 4)
        assert not game.asked[~available].any()
        assert game.asked.sum() == min(3, available.sum())


@pytest.mark.parametrize(("utility", "power"), [("uncorrelated", 2), ("correlated", 1)])
@pytest.mark.parametrize("initial", ["target", "uniform"])
def test_fifty_rounds_client_by_client(play, utility, power, initial):
    draw = np.random.default_rng(4)
    importance = draw.uniform(0.5, 2.0, 8).astype(np.float32)
    p = (importance / importance.sum()).astype(float)
    strategy = F3AST(cohort=[3, 1], beta=0.05, utility=utility, initial=initial)
    game = play(strategy, importance=tuple(importance))
    naive = NaiveF3AST(p, p if initial == "target" else [3 / 8] * 8, 0.05, power)
    for t in range(50):
        available = (draw.random(8) < 0.5) & (t % 9 != 0)
        updates = draw.normal(size=8).astype(np.float32)
        luck = np.asarray(jr.uniform(round_key(game.root, Stream.SELECT, t), (8,)), float)
        weights = np.array(naive.weights(available, (3, 1)[t % 2], luck))
        before = float(game.state.params[0])
        assert game.round(available, updates) == pytest.approx(before + weights @ updates, abs=1e-4)
        np.testing.assert_array_equal(game.asked, weights > 0)
        np.testing.assert_allclose(game.state.strategy, naive.rate, rtol=1e-4)


def test_a_budget_may_be_a_function_of_the_round(play):
    game = play(F3AST(cohort=lambda t: 1 + t % 3), importance=(1.0,) * 5)
    for t in range(6):
        game.round([1] * 5, [0.0] * 5)
        assert game.asked.sum() == 1 + t % 3


def test_bad_settings_are_refused(play):
    with pytest.raises(Exception, match="utility"):
        F3AST(utility="unknown")
    with pytest.raises(Exception, match="initial"):
        F3AST(initial="unknown")
    with pytest.raises(ValueError, match="between 1 and the 3 clients"):
        play(F3AST(cohort=[1, 4]))


def test_rates_never_begin_above_one():
    """A budget larger than the fleet asks everybody: r = min(1, M / N)."""
    many = F3AST(cohort=lambda t: jnp.asarray(10), initial="uniform")
    np.testing.assert_array_equal(many.init(Fleet(jnp.ones(4)), None), np.ones(4))
