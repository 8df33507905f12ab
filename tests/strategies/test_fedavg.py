import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.strategies import FedAvg
from turnout.strategies.sampling import largest, with_replacement, without_replacement


def test_received_divides_by_what_came(play):
    game = play(FedAvg(), importance=(1.0, 1.0, 2.0))
    assert game.round([1, 0, 1], [3.0, 9.0, 6.0]) == pytest.approx((0.25 * 3 + 0.5 * 6) / 0.75)
    before = float(game.state.params[0])
    assert game.round([1, 1, 1], [4.0, 8.0, 8.0], arrived=[1, 1, 0]) == pytest.approx(before + 6.0)


def test_all_keeps_the_divisor_of_the_whole_fleet(play):
    game = play(FedAvg(normaliser="all"), importance=(1.0, 1.0, 2.0))
    assert game.round([1, 0, 1], [3.0, 9.0, 6.0]) == pytest.approx(0.25 * 3 + 0.5 * 6)


def test_draws_divide_by_the_number_drawn_whatever_arrives(play):
    game = play(FedAvg(cohort=2, normaliser="draws"), importance=(0.0, 1.0, 0.0))
    assert game.round([1, 1, 1], [5.0, 7.0, 5.0]) == pytest.approx(7.0)
    assert float(game.cohort.copies.max()) == 2.0
    assert game.round([1, 1, 1], [5.0, 7.0, 5.0], arrived=[1, 0, 1]) == pytest.approx(7.0)


def test_an_empty_round_leaves_the_model(play):
    for strategy in (FedAvg(), FedAvg(normaliser="all"), FedAvg(cohort=2), FedAvg(cohort=2, normaliser="draws")):
        assert play(strategy, start=4.0).round([0, 0, 0], [1.0, 1.0, 1.0]) == 4.0


def test_a_cohort_is_drawn_among_the_available(play):
    game = play(FedAvg(cohort=2), importance=(1.0,) * 5)
    for _ in range(10):
        game.round([1, 0, 1, 1, 0], [1.0] * 5)
        assert game.asked.sum() == 2
        assert not game.asked[[1, 4]].any()
    game.round([0, 0, 1, 0, 0], [1.0] * 5)
    np.testing.assert_array_equal(game.asked, [False, False, True, False, False])


@pytest.mark.parametrize("cohort", [0, 4])
def test_a_cohort_that_the_fleet_cannot_fill_is_refused(play, cohort):
    with pytest.raises(ValueError, match=r"between 1 and the 3 clients|from 1 to"):
        play(FedAvg(cohort=cohort))


def test_bad_normalisers_are_refused():
    with pytest.raises(Exception, match="normaliser"):
        FedAvg(normaliser="unknown")
    with pytest.raises(ValueError, match="needs cohort"):
        FedAvg(normaliser="draws")


def test_largest_takes_the_best_of_the_allowed():
    scores = jnp.array([5.0, 9.0, 1.0, 7.0])
    among = jnp.array([True, False, True, True])
    np.testing.assert_array_equal(largest(scores, among, 2, 3), [True, False, False, True])
    np.testing.assert_array_equal(largest(scores, among, 3, 9), [True, False, True, True])


def test_uniform_draws_without_replacement_are_uniform():
    among = jnp.array([True, True, False, True, True])
    drawn = jax.vmap(lambda key: without_replacement(key, among, 2, 2))(jr.split(jr.key(0), 4000))
    np.testing.assert_array_equal(drawn.sum(axis=1), 2)
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, 0.5, 0.0, 0.5, 0.5], atol=0.04)


def test_draws_with_replacement_follow_the_odds():
    odds = jnp.array([1.0, 0.0, 3.0, 2.0, 0.0, 4.0, 0.0])
    copies = jax.vmap(lambda key: with_replacement(key, odds, 5, 8))(jr.split(jr.key(0), 4000))
    np.testing.assert_array_equal(copies.sum(axis=1), 5.0)
    np.testing.assert_allclose(copies.mean(axis=0), 5 * odds / odds.sum(), atol=0.1)
    assert float(copies[:, jnp.array([1, 4, 6])].max()) == 0.0


def test_a_million_odds_are_told_apart():
    num_clients = 1_000_000
    odds = jnp.where(jnp.arange(num_clients) % 2 == 0, 1.0, 3.0)
    copies = with_replacement(jr.key(0), odds, 20_000, 20_000)
    assert float(copies.sum()) == 20_000
    assert float(copies[1::2].sum()) == pytest.approx(15_000, abs=6 * (20_000 * 3 / 16) ** 0.5)
    quarters = np.asarray(copies).reshape(4, -1).sum(axis=1)
    np.testing.assert_allclose(quarters, 5000, atol=6 * (20_000 * 3 / 16) ** 0.5)
