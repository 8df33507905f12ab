"""Rests: who was asked is left alone for some rounds, whatever the strategy."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from turnout.availability import bernoulli, minimum_separation
from turnout.server import places
from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.simulator import simulate
from turnout.strategies import FedAvg, Strategy, Unbiased
from turnout.tasks.quadratics import quadratics
from turnout.types import Ask, Fleet
from turnout.world import World, links


def test_who_took_part_rests_by_hand(play):
    game = play(FedAvg(), rest=1)
    assert game.round([1, 1, 0], [2.0, 4.0, 100.0]) == pytest.approx(3.0)
    assert game.round([1, 1, 1], [100.0, 100.0, 5.0]) == pytest.approx(3.0 + 5.0)
    assert game.round([1, 0, 1], [1.0, 100.0, 100.0]) == pytest.approx(8.0 + 1.0)
    np.testing.assert_array_equal(game.state.rest, [1.0, 0.0, 0.0])
    assert game.round([1, 1, 1], [100.0, 2.0, 4.0]) == pytest.approx(9.0 + 3.0)


def test_two_rounds_of_rest_and_rounds_in_which_all_rest(play):
    game = play(FedAvg(), rest=2)
    asked = []
    for _ in range(7):
        game.round([1, 1, 1], [1.0, 1.0, 1.0])
        asked.append(game.asked.sum())
    assert asked == [3, 0, 0, 3, 0, 0, 3]


def test_a_lost_upload_is_a_participation(play):
    game = play(FedAvg(), rest=1, start=1.0)
    assert game.round([1, 1, 1], [2.0, 4.0, 6.0], arrived=[0, 0, 0]) == 1.0
    assert game.round([1, 1, 1], [2.0, 4.0, 6.0]) == 1.0
    assert game.round([1, 1, 1], [2.0, 4.0, 6.0]) == pytest.approx(5.0)


def test_the_first_round_may_be_empty(play):
    game = play(Unbiased(), rest=3, start=2.0)
    assert game.round([0, 0, 0], [1.0, 1.0, 1.0]) == 2.0
    assert game.round([1, 0, 0], [3.0, 1.0, 1.0]) == pytest.approx(2.0 + 3.0 / 3 / 0.5)


@pytest.mark.parametrize("rest", [0, 1, 3])
def test_never_the_same_client_within_the_rest(play, rest):
    game = play(FedAvg(cohort=2), rest=rest, importance=(1.0,) * 9)
    draw, last, soonest = np.random.default_rng(0), np.full(9, -100), 100
    for t in range(60):
        game.round(draw.random(9) < 0.7, np.ones(9))
        soonest = min(soonest, *(t - last[game.asked]), 100)
        last[game.asked] = t
    assert soonest == rest + 1


def test_a_rest_of_no_rounds_is_none():
    task, scene = quadratics(num_clients=6, dimension=2), World(bernoulli(6, 0.5), links.bernoulli(6, 0.8))
    for strategy in (FedAvg(cohort=2), Unbiased()):
        bare = simulate(task, scene, strategy, rounds=20, seeds=2)
        rested = simulate(task, scene, strategy, rounds=20, seeds=2, rest=0)
        np.testing.assert_allclose(rested.params, bare.params, rtol=1e-6)


def test_one_draw_a_round_has_the_participation_of_the_process_that_has_the_rest_built_in():
    """Draws by α among the rested are the chain of Sun et al. 2025, whose participation rates are known exactly."""
    odds = [0.1, 0.15, 0.3, 0.45]
    task = quadratics(num_clients=4, dimension=1, importance=odds)
    strategy = FedAvg(cohort=1, normaliser="draws")
    run = simulate(task, World(bernoulli(4, 1.0), compute=1), strategy, rounds=2000, seeds=16, rest=2)
    share = run.clients["asked"] / 2000
    expected = minimum_separation(4, odds, separation=2).stationary()
    error = share.std(axis=0, ddof=1) / 4
    assert (np.abs(share.mean(axis=0) - expected) <= 5 * error + 1e-3).all()


class Fussy(Strategy[None]):
    needs = ("reach", "losses")

    def select(self, state, view, key):
        return Ask.of(view.available, view.losses), state


def test_losses_of_the_resting_are_hidden(play):
    game = play(Fussy(), rest=1)
    assert game.round([1, 0, 0], [1.0, 1.0, 1.0], losses=[2.0, 0.0, 0.0]) == pytest.approx(2.0)
    assert game.round([1, 1, 0], [1.0, 1.0, 1.0], losses=[2.0, 5.0, 0.0]) == pytest.approx(2.0 + 5.0)


def test_rests_are_those_of_clients_not_of_places():
    """On real nodes a newcomer may be asked at once, and so may whoever gets the place of a client that left."""
    settings = ServerSettings(rest=3)
    small, large = (Server.of(Fleet(jnp.ones(count)), FedAvg(), settings, count) for count in (2, 3))
    state = replace(small.init(jnp.zeros(1)), rest=jnp.array([3.0, 2.0]))
    np.testing.assert_array_equal(places.grow(large, state, 2).rest, [3.0, 2.0, 0.0])
    np.testing.assert_array_equal(places.renew(small, state, jnp.array([True, False])).rest, [0.0, 2.0])
    np.testing.assert_array_equal(places.vacate(small, state, jnp.array([False, True])).rest, [3.0, 0.0])
