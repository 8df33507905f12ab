import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from turnout import tree
from turnout.server import places
from turnout.server.facts import Online
from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.strategies import FedAvg, Unbiased
from turnout.types import Answer, Cohort, Fleet, Reports


def server_of(num_clients=2, **options):
    return Server.of(Fleet(jnp.ones(num_clients)), FedAvg(), ServerSettings(facts=Online(), **options), num_clients)


def play(server, state, t, available, updates):
    view = server.view(state, jnp.asarray(t), jnp.asarray(available, bool), 0.1)
    cohort, state = server.ask(state, view, jr.key(0))
    cohort = Cohort(**{**vars(cohort), "arrived": cohort.uploading})
    rows = cohort.take(jnp.asarray(updates, jnp.float32))[:, None]
    reports = Reports.of(cohort, Answer(rows), rows[:, 0], rows[:, 0])
    return server.close(state, view, cohort, reports, Tally.empty(cohort.num_clients)).state


def test_the_server_learning_rate_scales_the_direction():
    server = server_of(learning_rate=2.0)
    assert float(play(server, server.init(jnp.zeros(1)), 0, [1, 1], [1.0, 3.0]).params[0]) == pytest.approx(4.0)


def test_a_schedule_is_driven_by_the_round():
    server = server_of(learning_rate=lambda t: 1.0 / (1.0 + t))
    state = play(server, server.init(jnp.zeros(1)), 0, [1, 1], [4.0, 4.0])
    assert float(play(server, state, 3, [1, 1], [4.0, 4.0]).params[0]) == pytest.approx(4.0 + 1.0)


def test_momentum_at_the_server_by_hand():
    server = server_of(optimizer=optax.sgd(1.0, momentum=0.5))
    state = play(server, server.init(jnp.zeros(1)), 0, [1, 1], [2.0, 2.0])
    state = play(server, state, 1, [1, 1], [2.0, 2.0])
    assert float(state.params[0]) == pytest.approx(2.0 + (0.5 * 2.0 + 2.0))


def test_the_model_is_projected_onto_a_ball_by_the_length_of_the_whole_tree():
    long = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    inside = tree.project(long, 6.0)
    np.testing.assert_array_equal(inside["a"], long["a"])
    short = tree.project(long, 1.0)
    np.testing.assert_allclose(short["a"], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(short["b"], [[0.8]], rtol=1e-6)
    np.testing.assert_array_equal(tree.project(jnp.zeros(2), 1.0), 0.0)


def test_projection_comes_after_the_optimizer():
    server = server_of(learning_rate=3.0, radius=4.0)
    state = play(server, server.init(jnp.zeros(1)), 0, [1, 1], [1.0, 1.0])
    assert float(state.params[0]) == pytest.approx(3.0)
    state = play(server, state, 1, [1, 1], [1.0, 1.0])
    assert float(state.params[0]) == pytest.approx(4.0)
    assert float(play(server, state, 2, [1, 1], [-1.0, -1.0]).params[0]) == pytest.approx(1.0)


@pytest.mark.usefixtures("lenient_promotion")
def test_an_empty_round_moves_neither_model_nor_optimizer():
    server = server_of(optimizer=optax.adam(0.1))
    state = play(server, server.init(jnp.zeros(1)), 0, [1, 1], [2.0, 2.0])
    after = play(server, state, 1, [0, 0], [2.0, 2.0])
    np.testing.assert_array_equal(after.params, state.params)
    for new, old in zip(after.optimizer[0], state.optimizer[0], strict=True):
        np.testing.assert_array_equal(new, old)
    np.testing.assert_array_equal(after.facts.rounds, 2.0)


def test_clients_that_join_late_start_fresh_and_the_others_go_on():
    small = server_of(2)
    state = play(small, small.init(jnp.zeros(1)), 0, [1, 0], [2.0, 2.0])
    large = server_of(4)
    grown = places.grow(large, state, 2)
    np.testing.assert_array_equal(grown.facts.on, [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(grown.facts.rounds, [1.0, 1.0, 0.0, 0.0])
    after = play(large, grown, 1, [1, 0, 0, 1], [1.0, 1.0, 1.0, 3.0])
    assert float(after.params[0]) == pytest.approx(float(state.params[0]) + 2.0)


def test_estimates_never_see_the_present_round():
    server = Server.of(Fleet(jnp.ones(2)), Unbiased(), ServerSettings(facts=Online()), 2)
    state = server.init(jnp.zeros(1))
    after = play(server, state, 0, [1, 1], [1.0, 1.0])
    assert float(after.params[0]) == pytest.approx(1.0 / 0.5)
