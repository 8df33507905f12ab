from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from turnout.availability import bernoulli, diurnal, markov
from turnout.server.facts import Online
from turnout.simulator import simulate, simulate_trials
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.strategies import AdaFed, FedAvg, FedAWE, MoreAvailable, Unbiased
from turnout.tasks.quadratics import quadratics
from turnout.world import World, compute, links

LOCAL = Local(learning_rate=0.05, batch_size=4)


@pytest.fixture(scope="module")
def task():
    return quadratics(num_clients=6, dimension=2, noise=0.5, num_samples=20)


@pytest.fixture(scope="module")
def scene():
    steps = compute.redrawn(6, 1, 4)
    return World(markov(6, pi=[0.2, 0.3, 0.4, 0.5, 0.6, 0.7], lam=0.5), links.bernoulli(6, 0.8), steps)


def same(a, b):
    np.testing.assert_array_equal(a.params, b.params)
    for name in a.metrics:
        np.testing.assert_array_equal(a.metrics[name], b.metrics[name])
    for name in a.records:
        np.testing.assert_array_equal(a.records[name], b.records[name])
    for name in a.clients:
        np.testing.assert_array_equal(a.clients[name], b.clients[name])


def test_the_same_seed_gives_the_same_bits_however_the_run_is_cut(task, scene):
    whole = simulate(task, scene, FedAvg(), rounds=23, seeds=2, local=LOCAL, evaluate_every=5)
    for segment in (5, 10, None):
        again = simulate(task, scene, FedAvg(), rounds=23, seeds=2, local=LOCAL, evaluate_every=5, segment=segment)
        same(whole, again)


def test_evaluation_does_not_disturb_training(task, scene):
    often = simulate(task, scene, FedAvg(), rounds=12, seeds=1, local=LOCAL, evaluate_every=1)
    rarely = simulate(task, scene, FedAvg(), rounds=12, seeds=1, local=LOCAL, evaluate_every=7)
    np.testing.assert_allclose(often.params, rarely.params, rtol=1e-6)
    np.testing.assert_array_equal(rarely.evaluated, [0, 7, 12])
    np.testing.assert_allclose(often.metrics["distance"][:, [0, 7, 12]], rarely.metrics["distance"], rtol=1e-5)


def test_strategies_meet_the_same_absences(task, scene):
    runs = [simulate(task, scene, s, rounds=30, seeds=2, local=LOCAL) for s in (FedAvg(), Unbiased(), AdaFed())]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.records["available"], runs[0].records["available"])
        np.testing.assert_array_equal(run.records["arrived"], runs[0].records["arrived"])
        np.testing.assert_array_equal(run.records["local_steps"], runs[0].records["local_steps"])


def test_records_add_up_with_the_sums_by_client(task, scene):
    run = simulate(task, scene, FedAvg(), rounds=40, seeds=2, local=LOCAL)
    for name in ("available", "arrived"):
        np.testing.assert_array_equal(run.records[name].sum(axis=1), run.clients[name].sum(axis=1))
    np.testing.assert_array_equal(run.records["cohort"].sum(axis=1), run.clients["asked"].sum(axis=1))
    np.testing.assert_allclose(run.records["weight_sum"].sum(axis=1), run.clients["weight"].sum(axis=1), rtol=1e-4)
    assert (run.records["arrived"] <= run.records["uploads"]).all()
    assert (run.clients["stalest"] <= 40).all()


def test_a_grid_of_hyper_parameters_is_one_program_with_the_single_results(task, scene):
    rates = [0.01, 0.05, 0.1]
    trials = [Trial(FedAvg(cohort=k), scene, Local(learning_rate=r, batch_size=4)) for k in (2, 3) for r in rates]
    together = simulate_trials(task, trials, rounds=10, seeds=2)
    for trial, run in zip(trials, together, strict=True):
        alone = simulate(task, scene, trial.strategy, rounds=10, seeds=2, local=trial.local)
        np.testing.assert_allclose(run.params, alone.params, rtol=2e-5, atol=1e-6)
        np.testing.assert_array_equal(run.records["cohort"], alone.records["cohort"])


def test_trials_of_different_kinds_come_back_in_order(task, scene):
    strategies = [Unbiased(), MoreAvailable(threshold=0.3), Unbiased(), MoreAvailable(threshold=0.6)]
    seen, watched = [], []
    trials = [Trial(s, scene, LOCAL) for s in strategies]
    runs = simulate_trials(
        task, trials, rounds=8, progress=lambda done, total: seen.append((done, total)), watch=watched.append
    )
    same(runs[0], runs[2])
    assert runs[1].records["cohort"].sum() > runs[3].records["cohort"].sum()
    assert seen[-1] == (16, 16)
    last = [float(run.final("train_loss")[0]) for run in (runs[1], runs[3])]
    assert min(last) - 1e-6 <= watched[-1]["train_loss"] <= max(last) + 1e-6


def test_seeds_may_be_named(task, scene):
    both = simulate(task, scene, FedAvg(), rounds=5, seeds=[3, 9], local=LOCAL)
    one = simulate(task, scene, FedAvg(), rounds=5, seeds=[9], local=LOCAL)
    np.testing.assert_allclose(both.params[1:], one.params, rtol=1e-5)


@pytest.mark.usefixtures("lenient_promotion")
def test_a_local_and_a_server_optimizer_and_schedules(task, scene):
    local = Local(learning_rate=lambda t: 0.1 / (1.0 + t), batch_size=4, optimizer=optax.sgd(1.0, momentum=0.9))
    far = replace(task, start=jnp.full(2, 5.0))
    run = simulate(far, scene, FedAvg(), rounds=60, seeds=2, local=local, optimizer=optax.adam(0.1))
    assert (run.final("distance") < run.metrics["distance"][:, 0]).all()


def test_a_radius_keeps_the_model_in_a_ball(task, scene):
    far = replace(task, centres=task.centres + 10.0)
    free, bound = (simulate(far, scene, FedAvg(), rounds=60, local=LOCAL, radius=r) for r in (None, 2.0))
    assert np.linalg.norm(free.params[0]) > 5.0
    assert np.linalg.norm(bound.params[0]) == pytest.approx(2.0, rel=1e-5)
    with pytest.raises(ValueError, match="radius must be a number above 0, not -1"):
        simulate(task, scene, FedAvg(), rounds=2, radius=-1.0)


def test_an_oracle_cannot_be_asked_where_there_is_no_law(task):
    nights = World(diurnal(6, rounds_per_day=24))
    with pytest.raises(ValueError, match="Diurnal has no stationary law"):
        simulate(task, nights, Unbiased(), rounds=2)
    simulate(task, nights, Unbiased(), rounds=2, facts=Online())
    simulate(task, nights, FedAvg(), rounds=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "from 1 to 16,777,216"),
        ({"rounds": 2**31}, "rounds must be .* not 2147483648"),
        ({"rounds": 3, "seeds": 0}, "seeds"),
        ({"rounds": 3, "seeds": 10**12}, "seeds must be a whole number from 1 to 1,000,000 or a list"),
        ({"rounds": 3, "seeds": [2**32]}, "from 0 to 2³² - 1"),
        ({"rounds": 3, "evaluate_every": 2**31}, "evaluate_every must be .* not 2147483648"),
        ({"rounds": 3, "seeds": [1, 1]}, "different"),
        ({"rounds": 3, "evaluate_every": 0}, "evaluate_every"),
    ],
)
def test_bad_options_are_refused(task, scene, options, message):
    with pytest.raises(ValueError, match=message):
        simulate(task, scene, FedAvg(), **options)


def test_a_server_that_would_change_the_model_of_a_strategy_is_refused(task, scene):
    with pytest.raises(ValueError, match=r"FedAWE sets the model itself, .*learning_rate must be 1, not 0\.5"):
        simulate(task, scene, FedAWE(), rounds=1, learning_rate=0.5)


def test_a_world_of_another_size_is_refused(task):
    with pytest.raises(ValueError, match="5 clients, but the task 6"):
        simulate(task, World(bernoulli(5, 0.5)), FedAvg(), rounds=1)


def test_nobody_ever_available_is_a_run_that_stands_still(task):
    run = simulate(task, World(markov(6, pi=1e-6, lam=0.0)), FedAvg(), rounds=4, local=LOCAL)
    np.testing.assert_array_equal(run.params, np.zeros((1, 2)))
    assert run.records["cohort"].sum() == 0


def test_divergence_is_seen(task, scene):
    run = simulate(task, scene, FedAvg(), rounds=200, local=Local(learning_rate=50.0, batch_size=4), evaluate_every=50)
    assert run.diverged.all()


def test_tables_are_tidy(task, scene):
    run = simulate(task, scene, FedAvg(), rounds=6, seeds=2, local=LOCAL, evaluate_every=2)
    frame = run.frame()
    assert frame.columns == ["seed", "round", "kind", "name", "value"]
    assert set(frame.filter(kind="metric")["name"]) == set(run.metrics)
    assert set(frame.filter(kind="record")["name"]) == set(run.records)
    assert frame.filter(name="distance").height == 2 * 4
    assert frame.filter(name="arrived")["round"].to_list() == list(range(1, 7)) * 2
    assert run.clients_frame().height == 2 * 6
    with pytest.raises(KeyError, match="distance"):
        run.final("accuracy")


def test_weights_are_what_was_really_given(task):
    always = World(bernoulli(6, 1.0))
    run = simulate(task, always, FedAvg(), rounds=5, local=LOCAL)
    np.testing.assert_allclose(run.records["weight_sum"], 1.0, rtol=1e-6)
    np.testing.assert_allclose(run.clients["weight"], 5 / 6, rtol=1e-5)
    assert jnp.isfinite(run.params).all()
