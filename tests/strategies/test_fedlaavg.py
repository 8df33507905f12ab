from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.availability import alternating, bounded_absence
from turnout.simulator import simulate, simulate_trials
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.strategies import FedAvg, FedLaAvg
from turnout.strategies.fedlaavg import FedLaAvgState
from turnout.tasks.two_clients import two_clients
from turnout.types import Fleet, Known, View
from turnout.world import World

MOVING = partial(FedLaAvg, moves_when_empty=True)  # the paper's


def test_every_round_moves_by_the_latest_of_all(play):
    game = play(MOVING(), importance=(1.0, 3.0), lr=0.1)
    assert game.round([1, 0], [2.0, 9.0]) == pytest.approx(0.25 * 2)
    assert game.round([0, 1], [9.0, 4.0]) == pytest.approx(0.5 + 0.25 * 2 + 0.75 * 4)
    assert game.round([0, 0], [9.0, 9.0]) == pytest.approx(4.0 + 3.5)
    assert game.round([1, 1], [6.0, 9.0], arrived=[1, 0]) == pytest.approx(7.5 + 0.25 * 6 + 0.75 * 4)


def test_memory_holds_gradients_not_steps(play):
    game = play(MOVING(), importance=(1.0, 1.0), lr=0.1)
    game.round([1, 0], [2.0, 0.0])
    np.testing.assert_allclose(game.state.strategy.words.rows[0], [20.0])
    game.lr = 0.05
    assert game.round([0, 0], [0.0, 0.0]) == pytest.approx(1.0 + 0.5 * 20.0 * 0.05)


def test_warm_up_collects_without_moving(play):
    game = play(MOVING(warmup=2), importance=(1.0, 1.0))
    assert game.round([1, 0], [2.0, 0.0]) == 0.0
    assert game.round([0, 1], [0.0, 4.0]) == 0.0
    assert game.round([0, 0], [0.0, 0.0]) == pytest.approx(3.0)


def test_the_longest_waiting_are_asked(play):
    game = play(FedLaAvg(cohort=2), importance=(1.0,) * 4)
    game.round([1, 1, 0, 0], [0.0] * 4)
    game.round([1, 0, 1, 1], [0.0] * 4)
    np.testing.assert_array_equal(game.asked, [False, False, True, True])
    game.round([1, 0, 1, 1], [0.0] * 4)
    assert game.asked[0]
    assert game.asked.sum() == 2


def test_a_lost_upload_goes_on_waiting(play):
    game = play(FedLaAvg(cohort=1), importance=(1.0, 1.0))
    game.round([1, 0], [1.0, 0.0], arrived=[0, 1])
    game.round([0, 1], [0.0, 1.0])
    game.round([1, 1], [1.0, 1.0])
    np.testing.assert_array_equal(game.asked, [True, False])


@pytest.mark.parametrize("moves", [False, True])
def test_as_a_naive_server(play, weather, moves):
    gradients = np.zeros(len(weather.importance))
    model = 0.0

    def naive(t, came):
        nonlocal model
        for k in np.flatnonzero(came):
            gradients[k] = -weather.pull(t, model)[k] / weather.lrs[t]
        if moves or came.any():
            model = model - weather.lrs[t] * sum(a * g for a, g in zip(weather.target, gradients, strict=True))
        return model

    weather.compare(play(FedLaAvg(moves_when_empty=moves), weather.importance), naive)


NUM_CLIENTS, ROUNDS = 12, 200


@jax.jit
def stalest_of_many(cohort, process, keys):
    return jax.vmap(lambda key: stalest(cohort, process, key))(keys)


def stalest(cohort, process, key):
    """Longest time that any client waited, and most asked at once, of the selection alone."""
    ones = jnp.ones(NUM_CLIENTS)
    known = Known(ones, ones, ones, ones)
    strategy = FedLaAvg(cohort=cohort)
    memory = strategy.init(Fleet(ones), jnp.zeros(1)).words

    def step(carry, t):
        state, last, worst = carry
        state, available = process.step(state, t, jr.fold_in(key, 2 * t))
        view = View(t, ones, available, known, 0.1, None, slots=NUM_CLIENTS)
        ask, _ = strategy.select(FedLaAvgState(memory, last), view, jr.fold_in(key, 2 * t + 1))
        last = jnp.where(ask.copies > 0, t, last)
        return (state, last, jnp.maximum(worst, jnp.max(t - last))), jnp.sum(ask.copies)

    never = jnp.full(NUM_CLIENTS, -1, jnp.int32)
    begin = (process.init(jr.fold_in(key, 2 * ROUNDS)), never, jnp.zeros((), jnp.int32))
    (_, _, worst), asked = jax.lax.scan(step, begin, jnp.arange(ROUNDS, dtype=jnp.int32))
    return worst, jnp.max(asked)


@given(
    cohort=st.integers(1, NUM_CLIENTS),
    chances=st.lists(st.floats(0.0, 1.0, width=32), min_size=NUM_CLIENTS, max_size=NUM_CLIENTS),
    within=st.integers(1, 6),
    seed=st.integers(0, 2**31 - 1),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_gradient_is_older_than_the_bound(cohort, chances, within, seed):
    """Yan et al. 2020, lemma 5: ⌈N/K⌉ E - 1 rounds, if each client is available at least once in any E."""
    process = bounded_absence(NUM_CLIENTS, chances, within)
    worst, asked = stalest_of_many(jnp.asarray(cohort, jnp.int32), process, jr.split(jr.key(seed), 16))
    assert int(worst.max()) <= -(-NUM_CLIENTS // cohort) * within - 1
    assert int(asked.max()) <= cohort


def test_two_alternating_clients_reach_the_optimum():
    """Yan et al. 2020, example 1: within O(1/√T) with γ = 1/(2√T), where FedAvg stays off by a constant."""
    task, scene = two_clients(first=0.0, second=10.0), World(alternating(2, 3, 1), compute=1)
    gaps = []
    for rounds in (400, 1600, 6400):
        local = Local(learning_rate=0.5 / rounds**0.5, batch_size=1)
        run = simulate(task, scene, FedLaAvg(), rounds=rounds, local=local)
        gaps.append(abs(float(run.params[0, 0]) - 5.0))
        assert gaps[-1] <= 20 / rounds**0.5
    average = simulate(task, scene, FedAvg(), rounds=6400, local=Local(learning_rate=0.5 / 80, batch_size=1))
    assert abs(float(average.params[0, 0]) - 5.0) > 2.0
    assert gaps[2] < 0.25


def test_a_sweep_of_cohorts_runs_as_one():
    task, scene = two_clients(), World(alternating(2, 1, 1), compute=1)
    trials = [Trial(FedLaAvg(cohort=k), scene, Local(learning_rate=0.1, batch_size=1)) for k in (1, 2)]
    first, second = simulate_trials(task, trials, rounds=20)
    np.testing.assert_allclose(first.params, second.params)  # never more than one is there
