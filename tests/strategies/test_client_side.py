"""The seam for the client's half of an algorithm, by a strategy that uses all of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from steered import Steered
from turnout import Local, World, audit, simulate, simulate_trials
from turnout.availability import bernoulli, markov
from turnout.server.settings import ServerSettings
from turnout.simulator.trial import Trial, check_trial
from turnout.strategies import MIFA, FedAvg, LastWord, Strategy
from turnout.strategies.last_updates import LastUpdate
from turnout.tasks import synthetic_leaf
from turnout.tasks.quadratics import Quadratics
from turnout.testing import check_strategy
from turnout.types import Answer, Work
from turnout.uploads import EightBit, ErrorFeedback, Noise, TopK
from turnout.world import compute, links

COUNT, RATE, MU = 5, 0.05, 0.3
IMPORTANCE = [1.0, 2.0, 0.5, 1.5, 1.0]
CENTRES = np.random.default_rng(0).normal(size=(COUNT, 3))
CURVATURE = np.linspace(0.5, 1.5, COUNT)


def quadratics():
    return Quadratics.of(CENTRES, curvature=CURVATURE, importance=IMPORTANCE, start=np.ones(3))


def unequal_world(steps, success=0.7):
    away = markov(COUNT, pi=np.linspace(0.3, 0.9, COUNT).tolist(), lam=0.4)
    return World(away, links.bernoulli(COUNT, success), compute.per_client(COUNT, steps))


def test_the_contract_of_a_strategy_holds_with_all_of_a_client_side():
    check_strategy(Steered(MU))


@pytest.mark.parametrize("memory", ["server", "clients"])
@pytest.mark.parametrize("kind", [MIFA, LastWord])
def test_memories_on_clients_keep_the_contract(kind, memory):
    check_strategy(kind(memory=memory))


@pytest.mark.parametrize("steps", [[3] * COUNT, [1, 4, 2, 7, 3], [0, 4, 2, 0, 3]], ids=["equal", "unequal", "none"])
@pytest.mark.parametrize("success", [1.0, 0.6])
def test_it_trains_the_model_of_plain_loops(steps, success):
    world, task = unequal_world(steps, success), quadratics()
    run = simulate(task, world, Steered(MU), rounds=40, local=Local(learning_rate=RATE, batch_size=1))
    np.testing.assert_allclose(run.params[0], plain_loops(world, steps, rounds=40), rtol=2e-5, atol=2e-6)


def plain_loops(world, steps, rounds):
    """The algorithm as its box has it: every client by itself, all numbers in double precision."""
    share = np.array(IMPORTANCE) / np.sum(IMPORTANCE)
    w, controls, root = np.ones(3), np.zeros((COUNT, 3)), jr.key(0)
    step, state = eqx.filter_jit(world.step), world.init(root)
    for t in range(rounds):
        state, nature = step(state, root, jnp.asarray(t, jnp.int32))
        came = np.flatnonzero(np.asarray(nature.available & nature.delivers))
        common, updates, after = share @ controls, {}, controls.copy()
        for k in came:
            z, gradients = w.copy(), []
            for _ in range(steps[k]):
                gradients.append(CURVATURE[k] * (z - CENTRES[k]))
                z = z - RATE * (gradients[-1] + MU * (z - w) + common - controls[k])
            updates[k] = z - w
            if gradients:
                after[k] = (np.mean(gradients, axis=0) + gradients[-1]) / 2
        if len(came):
            w = w + sum(share[k] * updates[k] for k in came) / share[came].sum()
        controls = after
    return w


def test_lost_answers_are_kept_by_nobody_and_segments_do_not_change_a_bit():
    task, world = quadratics(), unequal_world([1, 4, 2, 7, 3], success=0.5)
    options = {"rounds": 12, "seeds": 2, "evaluate_every": 3, "local": Local(learning_rate=RATE, batch_size=1)}
    whole, cut = (simulate(task, world, Steered(MU), segment=segment, **options) for segment in (None, 3))
    np.testing.assert_array_equal(whole.params, cut.params)


@pytest.mark.parametrize("chunk", [1, 2, 8])
def test_neither_chunks_nor_lanes_change_it(chunk, monkeypatch):
    monkeypatch.setattr("turnout.simulator.side_by_side.slots_together", lambda *_, **__: chunk)
    task, world = quadratics(), unequal_world([0, 4, 2, 7, 3])
    local = Local(learning_rate=RATE, batch_size=1)
    runs = simulate_trials(task, [Trial(Steered(mu), world, local) for mu in (MU, 0.0)], rounds=15, seeds=3)
    alone = simulate(task, world, Steered(MU), rounds=15, local=local)
    np.testing.assert_allclose(runs[0].params[0], alone.params[0], rtol=1e-5)
    np.testing.assert_allclose(alone.params[0], plain_loops(world, [0, 4, 2, 7, 3], 15), rtol=2e-5, atol=2e-6)


def test_pull_enters_the_reach_beside_the_proximal_term_of_the_users_own():
    both = Trial(Steered(0.2), unequal_world([2] * COUNT), Local(learning_rate=RATE, proximal=0.1)).client.local
    assert float(both.proximal) == pytest.approx(0.3)
    reach = both.reach(jnp.asarray([3]), RATE, 3)
    assert float(reach[0]) == pytest.approx(sum((1 - 0.3 * RATE) ** s for s in range(3)), rel=1e-5)


def test_an_audit_votes_through_it_and_finds_everybody_at_the_target():
    world = unequal_world([1, 9, 2, 7, 3], success=[0.4, 1.0, 0.6, 0.8, 1.0])
    result = audit(world, {"steered": Steered(0.0), "fedavg": FedAvg()}, importance=IMPORTANCE, rounds=4000)
    off = {entry.label: np.abs(entry.weights - entry.target).sum() / 2 for entry in result.entries}
    assert off["steered"] < 0.01 < 0.1 < off["fedavg"]


def test_answers_of_two_vectors_are_twice_as_many_bytes_and_what_is_kept_counts_as_memory(monkeypatch):
    task, world = synthetic_leaf(num_clients=COUNT, num_features=6, num_classes=3), unequal_world([2] * COUNT)
    one, two = (simulate(task, world, each, rounds=3).records["bytes_uploaded"] for each in (FedAvg(), Steered()))
    np.testing.assert_array_equal(two, 2 * one)
    monkeypatch.setattr("turnout.strategies.memory_rows.device_memory", lambda: 300)
    check_trial(task, Trial(FedAvg(), world))
    with pytest.raises(ValueError, match="Steered remembers"):
        check_trial(task, Trial(Steered(), world))


def test_both_vectors_are_compressed_by_seeds_of_their_own():
    task, world = synthetic_leaf(num_clients=COUNT, num_features=6, num_classes=3), unequal_world([2] * COUNT)
    plain, eight = (
        simulate_trials(task, [Trial(Steered(), world)], rounds=60, evaluate_every=60),
        simulate_trials(task, [Trial(Steered(), world, uploads=EightBit())], rounds=60, evaluate_every=60),
    )
    assert eight[0].final("train_loss") == pytest.approx(plain[0].final("train_loss"), rel=0.02)
    check_trial(task, Trial(Steered(), world, uploads=Noise(0.1)))  # no change of what was sent before: noise may stay
    with pytest.raises(ValueError, match="ErrorFeedback cannot be used with Steered"):
        check_trial(task, Trial(Steered(), world, uploads=ErrorFeedback(TopK(0.1))))


def test_rests_and_steering_go_together():
    task, world, local = quadratics(), unequal_world([2] * COUNT), Local(learning_rate=RATE, batch_size=1)
    rested = simulate_trials(task, [Trial(Steered(), world, local, ServerSettings(rest=1))], rounds=20)[0]
    assert np.isfinite(rested.params).all()


def work_of(update, lr, reach=1.0, t=0.0):
    return Work(*(jnp.asarray(value, jnp.float32) for value in (update, lr, reach, t)))


def test_a_change_is_per_rate_and_to_what_was_sent():
    side = LastUpdate()
    kept = side.init(jnp.zeros(2))
    answer = side.say(kept, first := work_of([0.2, 0.4], lr=0.2))
    np.testing.assert_allclose(answer.update, [1.0, 2.0], rtol=1e-6)
    kept = side.keep(kept, first, answer)
    answer = side.say(kept, second := work_of([0.1, 0.4], lr=0.1))
    np.testing.assert_allclose(answer.update, [0.0, 2.0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(side.keep(kept, second, answer).word, [1.0, 4.0], rtol=1e-6)


def test_what_was_sent_fades_and_counts_per_unit_of_work():
    side = LastUpdate(fading=0.5, unit="work")
    first = work_of([0.6, 1.2], lr=0.2, reach=3.0, t=3.0)
    kept = side.keep(side.init(jnp.zeros(2)), first, side.say(side.init(jnp.zeros(2)), first))
    np.testing.assert_allclose(kept.word, [1.0, 2.0], rtol=1e-6)
    later = work_of([0.1, 0.4], lr=0.1, reach=1.0, t=15.0)  # 4 of 16 rounds: a root of a quarter
    answer = side.say(kept, later)
    np.testing.assert_allclose(answer.update, [0.5, 3.0], rtol=1e-6)
    kept = side.keep(kept, later, answer)
    np.testing.assert_allclose(kept.word, [1.0, 4.0], rtol=1e-6)
    assert float(kept.t) == 15.0


def test_an_answer_that_was_compressed_is_what_both_sides_know_of():
    side = LastUpdate()
    work = work_of([0.2, 0.4], lr=0.2)
    kept = side.keep(side.init(jnp.zeros(2)), work, Answer(jnp.array([1.0, 0.0]), numbers=jnp.ones(3)))
    np.testing.assert_allclose(side.say(kept, work).update, [0.0, 2.0], rtol=1e-6)


@pytest.mark.parametrize("hook", ["weigh", "settle", "recount", "client_memory", "probes"])
def test_a_hook_that_is_no_more_is_refused_with_a_remedy(hook):
    with pytest.raises(TypeError, match=rf"Mine has {hook}, which is not called any more: .+"):
        type("Mine", (Strategy,), {hook: lambda self: None})


def test_plain_strategies_have_nothing_of_it_in_their_program():
    """A seam that nobody uses costs nothing: the state has no rows of clients."""
    client = Trial(FedAvg(), World(bernoulli(2, 0.5))).client
    assert client.sends_plainly
    assert client.init(jnp.zeros(3), 2) is None
    assert not jax.tree.leaves(client.side)
