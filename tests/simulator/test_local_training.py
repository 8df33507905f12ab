import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from turnout import World, audit, availability, strategies, tasks, tree
from turnout.server.settings import ServerSettings
from turnout.simulator import simulate
from turnout.simulator.client import Client
from turnout.simulator.client_optimizer import Local
from turnout.simulator.clients import Trainees
from turnout.simulator.cohort_work import train_cohort
from turnout.simulator.lane import Lane
from turnout.simulator.local_training import Jobs
from turnout.simulator.minibatches import noise
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.trial import Trial
from turnout.streams import scramble
from turnout.tasks import from_arrays, linear, mlp, network
from turnout.tasks.models.layers import Conv, Dense, Pool, Relu
from turnout.tasks.quadratics import Quadratics
from turnout.types import Download

CENTRES = [[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [3.0, 3.0], [0.5, 0.5]]


def jobs_of(steps, rates=0.1, clients=None):
    count = len(steps)
    return Jobs(
        clients=jnp.asarray(range(count) if clients is None else clients, jnp.int32),
        seeds=scramble(jnp.arange(count, dtype=jnp.uint32)),
        steps=jnp.asarray(steps, jnp.int32),
        rates=jnp.broadcast_to(jnp.asarray(rates, jnp.float32), (count,)),
    )


def train(local, task, steps, common=None, chunk=2, first=None, **options):
    jobs = jobs_of(steps, **options)
    start = jnp.broadcast_to(task.init(jr.key(0)), (len(steps), 2))
    sent = train_cohort(Client(local), task, Download(start), jobs, common, chunk, first)
    return sent.answers.update, sent.losses


def test_sgd_on_a_quadratic_is_the_geometric_series():
    task = Quadratics.of(CENTRES)
    updates, _ = train(Local(batch_size=1), task, [3] * 5, common=3)
    np.testing.assert_allclose(updates, (1 - 0.9**3) * np.array(CENTRES), rtol=1e-5)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8])
def test_each_client_does_its_own_number_of_steps(chunk):
    task, steps = Quadratics.of(CENTRES), [2, 0, 5, 1, 7]
    updates, losses = train(Local(batch_size=1), task, steps, chunk=chunk)
    expected = (1 - 0.9 ** np.array(steps))[:, None] * np.array(CENTRES)
    np.testing.assert_allclose(updates, expected, rtol=1e-5, atol=1e-7)
    first = 0.5 * (np.array(CENTRES) ** 2).sum(axis=1)
    shrink = [np.mean([0.81**s for s in range(n)]) if n else 0.0 for n in steps]
    np.testing.assert_allclose(losses, first * np.array(shrink), rtol=1e-4)


def test_one_by_one_is_the_same_as_side_by_side():
    task, local = Quadratics.of(CENTRES), Local(batch_size=1, optimizer=optax.sgd(1.0, momentum=0.5))
    together, alone = (train(local, task, [4] * 5, common=4, chunk=chunk) for chunk in (8, 1))
    for ours, theirs in zip(alone, together, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("first", [1, 3, 5])
def test_a_first_pass_of_another_width_changes_nothing(first):
    task, local = Quadratics.of(CENTRES), Local(batch_size=1)
    expected, _ = train(local, task, [4] * 5, common=4, chunk=8)
    updates, _ = train(local, task, [4] * 5, common=4, chunk=2, first=first)
    np.testing.assert_allclose(updates, expected, rtol=1e-6)


def test_noise_is_new_in_every_step_and_for_every_client():
    seeds = scramble(jnp.arange(20, dtype=jnp.uint32))
    drawn_ones = {int(noise(seed, jnp.asarray(s, jnp.int32))) for seed in seeds for s in range(5)}
    assert len(drawn_ones) == 100
    assert not drawn_ones & set(seeds.tolist())


def test_a_step_scale_is_a_factor_of_the_learning_rate():
    updates, _ = train(Local(batch_size=1), Quadratics.of(CENTRES), [1] * 5, common=1, rates=[0.1, 0.2, 0.3, 0.0, 0.5])
    np.testing.assert_allclose(updates, np.array([[0.1], [0.2], [0.3], [0.0], [0.5]]) * np.array(CENTRES), rtol=1e-5)


def test_momentum_starts_afresh_every_round():
    local = Local(batch_size=1, optimizer=optax.sgd(1.0, momentum=0.5))
    task = Quadratics.of(CENTRES)
    first, _ = train(local, task, [2] * 5, common=2)
    second, _ = train(local, task, [2] * 5, common=2)
    np.testing.assert_array_equal(first, second)
    by_hand = 0.1 + (0.5 * 0.1 + 0.1 * 0.9)
    np.testing.assert_allclose(first, by_hand * np.array(CENTRES), rtol=1e-5)


def test_the_proximal_term_pulls_back_to_the_start():
    updates, _ = train(Local(batch_size=1, proximal=1.0), Quadratics.of(CENTRES), [2] * 5, common=2)
    np.testing.assert_allclose(updates, (0.1 + 0.1 * (0.9 - 0.1)) * np.array(CENTRES), rtol=1e-5)


def reaches(local, steps, lr=0.1):
    return np.asarray(local.reach(jnp.asarray(steps, jnp.int32), lr, int(max(steps))))


def test_reach_of_sgd_is_the_number_of_steps():
    np.testing.assert_array_equal(reaches(Local(), [0, 1, 9]), [0.0, 1.0, 9.0])


@pytest.mark.parametrize("momentum", [0.3, 0.9])
def test_reach_of_momentum_is_exact(momentum):
    steps = np.array([0, 1, 2, 7, 39])
    closed = (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
    np.testing.assert_allclose(reaches(Local(optimizer=optax.sgd(1.0, momentum=momentum)), steps), closed, rtol=1e-5)


def test_reach_of_proximal_sgd_is_exact():
    steps, lr, mu = np.array([0, 1, 5, 30]), 0.1, 0.7
    closed = (1 - (1 - lr * mu) ** steps) / (lr * mu)
    np.testing.assert_allclose(reaches(Local(proximal=mu), steps, lr), closed, rtol=1e-5)


def test_reach_of_decayed_sgd_is_exact():
    closed = [sum(1 / (1 + 0.25 * s) for s in range(n)) for n in (0, 1, 4, 20)]
    np.testing.assert_allclose(reaches(Local(decay=0.25), [0, 1, 4, 20]), closed, rtol=1e-5)


def data_task():
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(30, 4)).astype(np.float32)
    labels, owners = draw.integers(0, 3, 30), np.repeat([0, 1, 2], [5, 10, 15])
    everything = (inputs, labels, owners)
    return from_arrays(train=everything, validation=everything, test=everything, model=linear(4, 3)), everything


def test_one_shuffled_epoch_of_whole_batches_is_one_full_gradient_step():
    task, (inputs, labels, owners) = data_task()
    local = Local(batch_size=15, batches="shuffled")
    params = tree.repeat(task.init(jr.key(0)), 3)
    updates = train_cohort(Client(local), task, Download(params), jobs_of([1, 1, 1]), 1, 2).answers.update
    for client in range(3):
        mine = owners == client
        probabilities = np.full((mine.sum(), 3), 1 / 3)
        residual = np.eye(3)[labels[mine]] - probabilities
        weight = 0.1 * residual.T @ inputs[mine] / mine.sum()
        np.testing.assert_allclose(updates["weight"][client], weight, atol=1e-6)


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="batch_size"):
        Local(batch_size=0)
    with pytest.raises(Exception, match="batches"):
        Local(batches="epochs")


@pytest.mark.parametrize("rate", [math.nan, -1.0, math.inf])
def test_rates_that_lead_nowhere_are_refused(rate):
    for name in ("learning_rate", "proximal", "decay"):
        with pytest.raises(ValueError, match=f"{name} must be a finite number of 0 or more.*, not {rate}"):
            Local(**{name: rate})
    with pytest.raises(ValueError, match="learning_rate must be a finite number of 0 or more"):
        ServerSettings(learning_rate=rate)
    world = World(availability.bernoulli(2, 0.5))
    falling = Local(learning_rate=optax.constant_schedule(rate))
    with pytest.raises(ValueError, match="local learning_rate of round 0 must be a finite number of 0 or more"):
        audit(world, strategies.FedAvg(), local=falling, rounds=20)


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(1.0),
        optax.sgd(1.0, momentum=0.9),
        optax.sgd(1.0, momentum=0.9, nesterov=True),
        optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(1.0)),
        optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(1.0)),
        optax.adam(1.0),
        optax.rmsprop(1.0),
        optax.adagrad(1.0),
        optax.yogi(1.0),
        optax.adadelta(1.0),
        optax.adafactor(1.0),
        optax.rprop(1.0),
        optax.masked(optax.sgd(0.1), {"weight": True}),
    ],
)
def test_an_optimizer_of_rate_1_needs_no_warning(optimizer):
    assert Local(optimizer=optimizer).optimizer is optimizer  # warnings are errors


@pytest.mark.parametrize(
    ("optimizer", "length"),
    [
        (optax.adam(1e-3), "0.001"),
        (optax.sgd(0.1), "0.1"),
        (optax.yogi(0.01), "0.00999"),
        (optax.sgd(optax.cosine_decay_schedule(0.1, 100)), "0.1"),
        (optax.chain(optax.clip_by_global_norm(0.1), optax.adam(1e-3)), "0.001"),
        (optax.sgd(10.0), "10"),
    ],
)
def test_a_learning_rate_of_the_optimizer_itself_is_warned_of_once(optimizer, length):
    with pytest.warns(UserWarning, match=f"up to {length} long, and learning_rate multiplies that") as caught:
        local = Local(optimizer=optimizer)
    assert len(caught) == 1
    replace(local, learning_rate=1.0)  # warnings are errors


@pytest.mark.parametrize("optimizer", [optax.trace(0.9), optax.scale_by_adam()])
def test_an_optimizer_that_goes_up_is_refused_every_time(optimizer):
    for _ in range(2):
        with pytest.raises(ValueError, match=r"moves by \+1 under a gradient of 1, .*optax.sgd\(1.0, momentum=0.9\)"):
            Local(optimizer=optimizer)


FOUR = (np.ones((4, 2), np.float32), np.zeros(4, int), np.arange(4))  # inputs, labels, owners


def losses_told(task, split, available, params):
    trial = Trial(strategies.CAFed(), World(availability.markov(4, 0.5)), Local(probed=split))
    lane = Lane(task, None, trial, None, jr.key(1), Plan(4, 4, None, 1, 4), RecordPlan(64, 64, None))
    return Trainees(task).losses(lane, jnp.zeros((), jnp.int32), available, params)


def test_a_loss_may_be_asked_for_on_a_whole_split():
    """Every available client tells the loss on all its data; the others tell nothing."""
    task, available = tasks.synthetic_leaf(num_clients=4, num_features=5, num_classes=3), jnp.array([1, 0, 1, 1], bool)
    params = jax.tree.map(lambda leaf: leaf + 0.3, task.init(jr.key(0)))
    for split in ("train", "validation", "test"):
        expected = np.where(available, task.per_client(params)[f"{split}_loss"], 0.0)
        np.testing.assert_allclose(losses_told(task, split, available, params), expected, rtol=1e-6)
    bare = from_arrays(FOUR, model=linear(2, 2), validation_share=0.0)
    with pytest.raises(ValueError, match="probed is 'test', but the task has no test data"):
        losses_told(bare, "test", available, bare.init(jr.key(0)))


def test_a_client_without_such_data_tells_zero():
    one = tuple(part[:1] for part in FOUR)
    task = from_arrays(FOUR, one, model=linear(2, 2), validation_share=0.0)
    losses = np.asarray(losses_told(task, "test", jnp.ones(4, bool), task.init(jr.key(0))))
    assert losses[0] > 0
    np.testing.assert_array_equal(losses[1:], 0.0)


@pytest.mark.parametrize(
    "model", [linear(36, 3), mlp(36, (16,), 3), network((6, 6), (Conv(4), Relu(), Pool(), Dense(3)))]
)
def test_bfloat16_trains_nearly_as_float32_does_and_keeps_long_weights(model):
    draw, labels = np.random.default_rng(0), np.arange(60) % 3
    images = (draw.normal(size=(60, 6, 6)) + labels[:, None, None]).astype(np.float32)
    task = from_arrays((images, labels, np.arange(60) % 4), model=model)
    options = {"rounds": 20, "evaluate_every": 20, "metrics": ["train_loss"]}
    world = World(availability.bernoulli(4, 0.8), compute=4)

    def run(precision):
        local = Local(learning_rate=0.05, batch_size=16, precision=precision)
        return simulate(task, world, strategies.FedAvg(), local=local, **options)

    long, short = run("float32"), run("bfloat16")
    np.testing.assert_allclose(short.metrics["train_loss"], long.metrics["train_loss"], rtol=0.03)
    assert not np.array_equal(short.metrics["train_loss"], long.metrics["train_loss"])
    leaves = jax.tree.leaves(short.params)
    assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float32)}
    assert any((leaf.astype(jnp.bfloat16).astype(np.float32) != leaf).any() for leaf in leaves)


def test_steps_too_small_for_16_bits_still_add_up():
    ones = np.ones((8, 1), np.float32)
    task = from_arrays((ones, np.ones(8, np.float32), np.zeros(8, int)), model=linear(1, 1, bias=False), loss="squared")
    local, start = Local(learning_rate=1e-4, batch_size=4, precision="bfloat16"), {"weight": jnp.full((1, 1, 1), 0.5)}
    updates = train_cohort(Client(local), task, Download(start), jobs_of([50], rates=1e-4), 50, 8).answers.update
    assert float(updates["weight"][0, 0, 0]) == pytest.approx(50 * 1e-4 * 0.5, rel=0.02)


def test_a_task_without_short_inputs_says_so():
    with pytest.raises(ValueError, match="Quadratics computes in 32 bits only: leave precision at 'float32'"):
        train(Local(batch_size=1, precision="bfloat16"), Quadratics.of(CENTRES), [1] * 5, common=1)
