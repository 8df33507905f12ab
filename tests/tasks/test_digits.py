import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.tasks import digits, mlp
from turnout.tasks.data.dealing import PARTITIONS
from turnout.tasks.digits import load


def entries(task):
    splits = (task.train, task.validation, task.test)
    return tuple(np.concatenate([getattr(s, name) for s in splits]) for name in ("rows", "labels", "owners"))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_image_is_used_once(partition):
    task = digits(30, partition=partition)
    rows, labels, owners = entries(task)
    assert np.sort(rows).tolist() == list(range(1797))
    np.testing.assert_array_equal(labels, load()[1][rows])
    assert task.num_clients == 30
    assert int(task.test.sizes.min()) >= 1
    assert int(task.validation.sizes.min()) >= 1
    if partition == "one_class_a_client":
        np.testing.assert_array_equal(owners % 10, labels)


def test_images_stay_bytes_until_the_batch_is_cut():
    task = digits()
    assert task.train.inputs.dtype == jnp.uint8
    x, _ = task.batch(jnp.asarray(0), jnp.arange(4))
    assert x.dtype == jnp.float32
    assert x.max() == 1.0
    np.testing.assert_array_equal(x * 16, load()[0][np.asarray(task.train.rows[:4])])


def test_a_few_steps_of_descent_learn_the_digits():
    task = digits(5, partition="iid")

    @jax.jit
    def train(params):
        def step(params, _):
            loss = lambda p: jnp.sum(task.fleet.target * task.per_client(p)["train_loss"])  # noqa: E731
            return jax.tree.map(lambda p, g: p - 0.5 * g, params, jax.grad(loss)(params)), None

        return jax.lax.scan(step, params, length=60)[0]

    metrics = eqx.filter_jit(task.evaluate)(train(task.init(jr.key(0))))
    assert metrics["test_accuracy"] > 0.9
    assert metrics["worst_decile_accuracy"] <= metrics["test_accuracy"]


def test_the_second_half_sees_swapped_labels():
    plain, swapped = (digits(8, partition="iid", swapped_pairs=pairs) for pairs in (0, 2))
    owners, before, after = plain.train.owners, np.asarray(plain.train.labels), np.asarray(swapped.train.labels)
    changed = {(a, b) for a, b in zip(before.tolist(), after.tolist(), strict=True) if a != b}
    assert len(changed) == 4
    assert {(b, a) for a, b in changed} == changed
    assert np.asarray(owners)[before != after].min() == 4


def test_a_large_fleet_shares_the_pool():
    task = digits(20_000, partition="shared", samples_per_client=10)
    assert task.sizes.tolist() == [10] * 20_000
    held = {id(leaf): leaf.nbytes for leaf in jax.tree.leaves(task) if eqx.is_array(leaf)}
    assert sum(held.values()) < 12 * 200_000 + 7 * 4 * 20_000 + 150_000  # entries, clients, the pool
    trained, tested = (set(np.asarray(split.rows).tolist()) for split in (task.train, task.test))
    assert not trained & tested
    assert int(task.test.sizes.max()) == 1


def test_the_model_may_be_an_mlp():
    assert digits(model="mlp", hidden=[16]).model is mlp(64, (16,), 10)


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install scikit-learn"):
        digits()


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="ask for 359 clients at most"):
        digits(400)
    with pytest.raises(ValueError, match=r"num_clients must be a whole number from 1 to .* not 0"):
        digits(0, partition="shared")
    for partition in ("by_hand", np.zeros(3), object()):
        with pytest.raises((ValueError, TypeError), match=r"partition must be .* or a Partitioner, not"):
            digits(5, partition=partition)
