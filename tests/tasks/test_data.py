import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.tasks import DataTask, from_arrays, from_pool, linear
from turnout.tasks.data.data_task import Split, client_mean
from turnout.tasks.data.partition import TEST, TRAIN, VALIDATION

per_client = jax.jit(lambda task, params: task.per_client(params))  # op by op is slower to compile
cut = jax.jit(lambda task, client, positions: task.batch(client, positions))
value_and_grad = jax.jit(lambda task, *args: jax.value_and_grad(task.loss)(*args))


def loss_of(task, *args):
    return float(value_and_grad(task, *args)[0])


def ragged(num_samples=60, num_clients=4, features=3, classes=3, seed=0):
    """Samples in no order: client 0 owns many, the last one few."""
    generator = np.random.default_rng(seed)
    owners = np.sort(generator.integers(0, num_clients, num_samples)) ** 2 // num_clients
    owners = generator.permutation(np.concatenate([np.arange(num_clients), owners]) % num_clients)
    inputs = generator.standard_normal((owners.size, features)).astype(np.float32)
    return inputs, generator.integers(0, classes, owners.size), owners


def ragged_task(**options):
    options = {"model": linear(3, 3), "ridge": 0.1, **options}
    return from_arrays(ragged(), ragged(seed=1), **options)


def some_params(task, seed=3):
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape), leaf.dtype), task.init(jr.key(0)))


def naive_loss(params, inputs, labels, ridge):
    """Softmax regression by the book, in float64 and one sample at a time."""
    weight, bias = (np.asarray(params[name], np.float64) for name in ("weight", "bias"))
    losses = []
    for x, y in zip(np.asarray(inputs, np.float64), labels, strict=True):
        logits = weight @ x + bias
        losses.append(np.log(np.exp(logits).sum()) - logits[y])
    return np.mean(losses) + ridge / 2 * ((weight**2).sum() + (bias**2).sum())


def naive_gradient(params, inputs, labels, ridge):
    weight, bias = (np.asarray(params[name], np.float64) for name in ("weight", "bias"))
    d_weight, d_bias = ridge * weight, ridge * bias
    for x, y in zip(np.asarray(inputs, np.float64), labels, strict=True):
        odds = np.exp(weight @ x + bias)
        error = odds / odds.sum() - np.eye(len(bias))[y]
        d_weight = d_weight + np.outer(error, x) / len(labels)
        d_bias = d_bias + error / len(labels)
    return {"weight": d_weight, "bias": d_bias}


def test_batch_is_the_clients_own_samples():
    inputs, labels, owners = ragged()
    task = from_arrays((inputs, labels, owners), model=linear(3, 3), validation_share=0.0)
    assert task.validation is None
    for client in range(task.num_clients):
        size = int(task.sizes[client])
        assert size == (owners == client).sum()
        positions = np.arange(50) % size
        x, y = cut(task, jnp.asarray(client), jnp.asarray(positions))
        np.testing.assert_array_equal(x, inputs[owners == client][positions])
        np.testing.assert_array_equal(y, labels[owners == client][positions])


def test_vmapped_batch_equals_slicing_client_by_client():
    task = ragged_task()
    clients = jnp.array([2, 0, 3])
    positions = jnp.array([[0, 1, 1], [2, 0, 5], [0, 0, 0]])
    x, y = jax.jit(jax.vmap(lambda task, k, p: task.batch(k, p), (None, 0, 0)))(task, clients, positions)
    for slot, client in enumerate(clients.tolist()):
        start = int(task.train.starts[client])
        rows = np.asarray(task.train.rows)[start + np.asarray(positions[slot])]
        np.testing.assert_array_equal(x[slot], np.asarray(task.train.inputs)[rows])
        np.testing.assert_array_equal(y[slot], np.asarray(task.train.labels)[start + np.asarray(positions[slot])])


def test_loss_and_gradient_match_softmax_regression_by_hand():
    task = ragged_task()
    params = some_params(task)
    inputs, labels = task.batch(jnp.asarray(0), jnp.arange(5))
    value, gradient = value_and_grad(task, params, (inputs, labels), jnp.ones(5))
    assert value == pytest.approx(naive_loss(params, inputs, labels, 0.1), rel=1e-5)
    for name, expected in naive_gradient(params, inputs, labels, 0.1).items():
        np.testing.assert_allclose(gradient[name], expected, atol=1e-5)


def test_padding_counts_for_nothing():
    task = ragged_task()
    params = some_params(task)
    whole = task.batch(jnp.asarray(0), jnp.arange(5))
    first_three = task.batch(jnp.asarray(0), jnp.arange(3))
    present = jnp.array([1.0, 1.0, 1.0, 0.0, 0.0])
    assert loss_of(task, params, whole, present) == pytest.approx(loss_of(task, params, first_three, jnp.ones(3)))
    assert loss_of(task, params, whole, jnp.zeros(5)) == pytest.approx(float(task.penalty(params)))


def test_ridge_is_half_the_square_of_all_parameters():
    task = ragged_task(ridge=0.5)
    params = {"weight": jnp.full((3, 3), 2.0), "bias": jnp.ones(3)}
    assert task.penalty(params) == pytest.approx(0.25 * (9 * 4 + 3))


@pytest.mark.parametrize("chunk", [7, 16, 10_000])
def test_per_client_equals_a_naive_loop(chunk):
    task = ragged_task()
    task = DataTask(task.train, task.validation, task.test, task.model, task.judge, task.worth, task.ridge, chunk)
    params = some_params(task)
    metrics = jax.device_get(per_client(task, params))
    assert set(metrics) == {f"{s}_{m}" for s in ("train", "validation", "test") for m in ("loss", "accuracy")}
    for name in ("train", "validation", "test"):
        split = getattr(task, name)
        for client in range(task.num_clients):
            mine = np.flatnonzero(np.asarray(split.owners) == client)
            if mine.size == 0:
                assert np.isnan(metrics[f"{name}_loss"][client])
                assert np.isnan(metrics[f"{name}_accuracy"][client])
                continue
            inputs = np.asarray(split.inputs)[np.asarray(split.rows)[mine]]
            labels = np.asarray(split.labels)[mine]
            expected = naive_loss(params, inputs, labels, 0.1 if name == "train" else 0.0)
            assert metrics[f"{name}_loss"][client] == pytest.approx(expected, rel=1e-4)
            guess = np.argmax(inputs @ np.asarray(params["weight"]).T + np.asarray(params["bias"]), axis=1)
            assert metrics[f"{name}_accuracy"][client] == pytest.approx(np.mean(guess == labels))


def test_a_client_without_data_is_nan_and_a_diverged_model_infinite():
    inputs, labels, owners = ragged()
    test = (inputs[:2], labels[:2], np.zeros(2, int))
    task = from_arrays((inputs, labels, owners), test, model=linear(3, 3))
    metrics = per_client(task, {"weight": jnp.full((3, 3), jnp.nan), "bias": jnp.zeros(3)})
    assert metrics["test_loss"][0] == jnp.inf
    assert jnp.isnan(metrics["test_loss"][1:]).all()
    assert eqx.filter_jit(task.evaluate)(task.init(jr.key(0)))["test_loss"] == pytest.approx(np.log(3))


def test_entries_share_the_pool_and_label_it_their_own_way():
    pool = np.array([[0], [10], [20]], np.uint8)
    task = from_pool(
        pool,
        labels=np.array([0, 1, 1, 0]),
        owners=np.array([1, 0, 0, 1]),
        parts=np.array([TRAIN, TRAIN, TEST, VALIDATION]),
        rows=np.array([2, 2, 0, 1]),
        model=linear(1, 2),
        scale=0.1,
        shift=1.0,
    )
    assert task.train.inputs.dtype == jnp.uint8
    assert task.train.inputs is task.test.inputs
    for client, label in ((0, 1), (1, 0)):
        x, y = task.batch(jnp.asarray(client), jnp.array([0]))
        np.testing.assert_allclose(x, [[3.0]])  # 0.1 · 20 + 1
        assert y.tolist() == [label]
    np.testing.assert_array_equal(jnp.isnan(per_client(task, task.init(jr.key(0)))["test_loss"]), [False, True])


def test_memory_follows_the_samples_not_the_largest_client():
    owners = np.concatenate([np.zeros(5_000, int), np.arange(1, 20_001)])
    rows = np.arange(owners.size) % 100
    task = from_pool(
        np.zeros((100, 4), np.float32), rows % 2, owners, np.zeros(owners.size, int), rows, model=linear(4, 2)
    )
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(task) if eqx.is_array(leaf))
    assert held < 16 * owners.size + 16 * 20_001 + 10_000


def test_a_sweep_of_ridges_is_one_vmap():
    task = ragged_task()
    params = some_params(task)
    batch = task.batch(jnp.asarray(0), jnp.arange(4))

    def loss(ridge):
        return eqx.tree_at(lambda task: task.ridge, task, ridge).loss(params, batch, jnp.ones(4))

    free, penalised = jax.jit(jax.vmap(loss))(jnp.array([0.0, 1.0])).tolist()
    assert penalised - free == pytest.approx(0.5 * sum(np.square(leaf).sum() for leaf in params.values()), rel=1e-4)


def test_regression_has_no_accuracy():
    inputs, _, owners = ragged()
    inputs = np.rint(inputs)
    targets = (inputs @ np.array([1, -2, 4])).astype(int)  # whole numbers are numbers, too
    task = from_arrays((inputs, targets, owners), model=linear(3, 1, bias=False), loss="squared")
    perfect = {"weight": jnp.array([[1.0, -2.0, 4.0]])}
    metrics = per_client(task, perfect)
    assert set(metrics) == {"train_loss", "validation_loss"}
    np.testing.assert_allclose(metrics["train_loss"], 0.0, atol=1e-10)


@pytest.mark.parametrize("sizes", [(3_000_000,), (5, 40_000, 0, 2_000)])
def test_a_mean_over_many_samples_does_not_drift(sizes):
    """One by one, a million equal losses are summed to one percent too much in single precision."""
    owners = np.repeat(np.arange(len(sizes)), sizes)
    split = Split.group(np.zeros((1, 1), np.float32), owners, owners, len(sizes), np.zeros_like(owners))
    padded = [jnp.pad(split.owners, (0, 2_000), constant_values=len(sizes)), *[jnp.pad(split.rows, (0, 2_000))] * 2]
    beside = eqx.tree_at(lambda split: [split.owners, split.rows, split.labels], split, padded)  # entries of nobody
    means = jax.jit(client_mean)
    expected = np.where(np.array(sizes) > 0, 0.1, np.nan)
    np.testing.assert_allclose(means(jnp.full(owners.size, 0.1), split), expected, rtol=2e-5)
    values = jnp.append(jnp.full(owners.size, 0.1), jnp.full(2_000, 1e9))
    np.testing.assert_array_equal(means(values, beside), means(values[: owners.size], split))
