from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from turnout.availability import bernoulli
from turnout.server.places import _map_words
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial, check_trial
from turnout.strategies import MIFA, FedAU, FedAvg, FedAWE, FedLaAvg, FedVARP, LastWord, StaleFill, Strategy
from turnout.strategies.last_updates import Words
from turnout.strategies.memory_rows import check_memory, rows_of_zeros
from turnout.tasks.quadratics import quadratics
from turnout.types import Answer, Ask, Cohort, Fleet, Known, Reports, View
from turnout.uploads import ErrorFeedback, TopK
from turnout.world import World

BLEND = partial(LastWord, rule="blend")


def test_a_memory_that_does_not_fit_is_refused_with_its_size():
    fleet = Fleet(jnp.ones(4))

    def state_of(strategy):
        return eqx.filter_eval_shape(lambda: strategy.init(fleet, jnp.zeros((2**14, 2**14))))

    with pytest.raises(ValueError, match=r"MIFA remembers 5\.0 GiB for 4 clients.* the device has 3\.0 GiB"):
        check_memory(MIFA(), fleet, state_of(MIFA()), room=3 * 2**30)
    with pytest.raises(ValueError, match=r"FedAWE remembers 4\.0 GiB"):
        check_memory(FedAWE(), fleet, state_of(FedAWE()), room=3 * 2**30)
    check_memory(MIFA(), fleet, state_of(MIFA()), room=6 * 2**30)
    check_memory(FedAU(), fleet, state_of(FedAU()), room=3 * 2**30)
    check_memory(MIFA(), fleet, state_of(MIFA()), room=3 * 2**30, devices=2)
    with pytest.raises(ValueError, match=r"2 devices have 4\.0 GiB"):
        check_memory(MIFA(), fleet, state_of(MIFA()), room=2 * 2**30, devices=2)


def test_a_trial_is_checked_before_it_runs(monkeypatch):
    monkeypatch.setattr("turnout.strategies.memory_rows.device_memory", lambda: 100)
    task = quadratics(num_clients=10, dimension=20)
    with pytest.raises(ValueError, match="MIFA remembers"):
        check_trial(task, Trial(MIFA(), World(bernoulli(10, 0.5))))


def test_what_the_clients_remember_counts(monkeypatch):
    monkeypatch.setattr("turnout.strategies.memory_rows.device_memory", lambda: 700)
    task, world = quadratics(num_clients=10, dimension=20), World(bernoulli(10, 0.5))
    check_trial(task, Trial(FedAvg(), world))
    with pytest.raises(ValueError, match="FedAvg remembers"):
        check_trial(task, Trial(FedAvg(), world, uploads=ErrorFeedback(TopK(0.1))))


def random_rows(count, seed, decades=0):
    draw = np.random.default_rng(seed)
    shapes = {"w": (count, 5, 3), "b": (count,)}
    return {
        name: jnp.asarray(draw.normal(size=shape) * 10.0 ** draw.integers(-decades, decades + 1), "float32")
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("bits", [8, 16])
def test_packed_rows_are_off_by_half_a_unit_at_most(bits):
    fleet, rows = Fleet(jnp.ones(7)), random_rows(7, seed=bits, decades=6)
    rows["w"] = rows["w"].at[3].set(0.0)
    packed = rows_of_zeros(fleet, jax.tree.map(lambda leaf: leaf[0], rows), bits).pack(rows)
    for name, restored in packed.unpack().items():
        flat, exact = np.asarray(restored).reshape(7, -1), np.asarray(rows[name]).reshape(7, -1)
        unit = np.abs(exact).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
        assert packed.numbers[name].dtype.itemsize == bits // 8
        assert np.all(np.abs(flat - exact) <= 0.501 * unit)
    np.testing.assert_array_equal(packed.unpack()["w"][3], 0.0)


@pytest.mark.parametrize(("make", "bits"), [(LastWord, 8), (LastWord, 16), (BLEND, 8), (MIFA, 8), (FedVARP, 16)])
def test_a_packed_memory_holds_what_its_sum_says(make, bits):
    """The sum that is kept by differences is that of the rows as they are stored."""
    strategy, draw, ones = make(bits=bits), np.random.default_rng(3), jnp.ones(4)
    fleet, params = Fleet(jnp.asarray([1.0, 2.0, 3.0, 4.0])), {"w": jnp.zeros((5, 3)), "b": jnp.zeros(())}
    state = strategy.init(fleet, params)
    for t in range(12):
        here = jnp.asarray(draw.random(4) < 0.5)
        view = View(jnp.asarray(t), fleet.importance, here, Known(ones, ones, ones, ones), 0.1, None, slots=4)
        cohort = Cohort.pack(Ask.of(here, view.target), 4, lr=0.1)
        cohort = replace(cohort, arrived=cohort.uploading)
        reports = Reports.of(cohort, Answer(random_rows(4, seed=t % 5)), jnp.zeros(4), ones * (1 + t % 3))
        _, state = strategy.aggregate(state, params, view, cohort, reports)
    recounted = _map_words(Words.recount, state)
    for kept, made_anew in zip(jax.tree.leaves(state), jax.tree.leaves(recounted), strict=True):
        np.testing.assert_allclose(kept, made_anew, rtol=1e-3, atol=1e-4 * float(jnp.max(jnp.abs(kept))))


def test_a_packed_memory_trains_nearly_the_same_model():
    task, world = quadratics(num_clients=10, dimension=20), World(bernoulli(10, 0.5))
    whole, eighths = (
        simulate(
            task, world, LastWord(bits=bits), rounds=200, local=Local(learning_rate=0.01), evaluate_every=200
        ).params
        for bits in (32, 8)
    )
    assert float(jnp.max(jnp.abs(whole - eighths))) < 0.02 * float(jnp.max(jnp.abs(whole)))
    assert not np.array_equal(whole, eighths)


def test_bits_are_those_of_a_number_on_the_server():
    with pytest.raises(ValueError, match="bits is 8, but the clients keep the memory"):
        MIFA(memory="clients", bits=8)


MEMORIES = [MIFA(), FedVARP(), FedLaAvg(), LastWord(), LastWord(rule="blend"), MIFA(bits=16)]


@pytest.mark.parametrize("strategy", MEMORIES, ids=repr)
def test_no_ghost_of_an_importance_of_before_stays_in_the_sum(play, strategy):
    """Once every client has come again, the memory is that of a server that had the new importance from the start."""
    changed, always = play(strategy, importance=(1.0, 1.0)), play(strategy, importance=(1.0, 3.0))
    for game in (changed, always):
        game.round([1, 1], [1.0, -8.0])
    changed.server = replace(changed.server, fleet=always.server.fleet)
    for game in (changed, always):
        game.round([1, 1], [1.0, 2.0])
        game.state = replace(game.state, params=jnp.zeros(1))
    steps = [game.round([1, 1], [1.0, 2.0]) for game in (changed, always)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-4)
    assert steps[1] == pytest.approx(1.75, rel=1e-3)  # (1 · 1 + 3 · 2) / 4


@pytest.mark.parametrize("strategy", [*MEMORIES, StaleFill(cohort=2)], ids=repr)
def test_an_update_of_no_work_is_no_word(play, strategy):
    """A client that has done nothing has said nothing: what it said before stands."""
    idle, absent = (play(strategy, importance=(1.0, 1.0)) for _ in range(2))
    for game in (idle, absent):
        game.round([1, 1], [1.0, 3.0])
    idle.known = replace(idle.known, reach=jnp.array([1.0, 0.0]))
    idle.round([1, 1], [1.0, 0.0])
    absent.round([1, 1], [1.0, 0.0], arrived=[1, 0])
    rows, others = (jax.tree.leaves(game.state.strategy) for game in (idle, absent))
    for one, other in zip(rows, others, strict=True):
        if one.dtype != jnp.int32:  # when it came last is another question
            np.testing.assert_allclose(one, other, rtol=1e-6)


class ByName(Strategy[dict]):
    """Somebody's own strategy, which takes its model to be a dictionary."""

    def init(self, fleet, params):
        return {name: jnp.zeros((fleet.num_clients, *leaf.shape)) for name, leaf in params.items()}


@pytest.mark.parametrize(
    ("strategy", "remembers"),
    [
        (MIFA(), True),
        (MIFA(bits=8), True),
        (MIFA(memory="clients"), False),
        (FedAWE(), True),
        (FedAvg(), False),
        (FedAU(), False),
        (ByName(), True),
    ],
    ids=repr,
)
def test_who_keeps_a_model_per_client_is_seen_from_the_state(strategy, remembers):
    assert strategy.remembers_models == remembers
