import jax
import numpy as np
import pytest

from turnout.tasks import linear, synthetic_leaf
from turnout.tasks.synthetic_leaf import draw_samples, draw_sizes


def draw(num_clients, each, gamma, delta, features=60, classes=10, seed=0):
    owners = np.repeat(np.arange(num_clients), each)
    inputs, labels = draw_samples(owners, num_clients, features, classes, gamma, delta, np.random.default_rng(seed))
    return inputs.reshape(num_clients, each, features), labels.reshape(num_clients, each)


def test_variance_of_feature_j_within_a_client_is_j_to_the_minus_1_2():
    inputs, _ = draw(4, 4000, 0.5, 0.5)
    np.testing.assert_allclose(inputs.var(axis=1).mean(axis=0), np.arange(1.0, 61) ** -1.2, rtol=0.06)


def test_centres_spread_by_one_around_a_mean_that_spreads_by_delta():
    # Var over clients of the mean over features: δ² + 1/60 (+ the mean of the sampling noise, here negligible).
    inputs, _ = draw(4000, 3, 0.0, 2.0)
    assert inputs.mean(axis=(1, 2)).var() == pytest.approx(4 + 1 / 60, rel=0.07)
    within = inputs.mean(axis=1).var(axis=1).mean()
    assert within == pytest.approx(1 + (np.arange(1.0, 61) ** -1.2).mean() / 3, rel=0.03)


def test_labels_come_from_each_clients_own_softmax():
    # Replaying the generator gives the models back, entry by entry.
    num_clients, gamma, delta = 3, 0.7, 0.2
    inputs, labels = draw(num_clients, 50, gamma, delta, seed=5)
    generator = np.random.default_rng(5)
    mean = gamma * generator.standard_normal(num_clients)
    generator.standard_normal(num_clients * (1 + 60 + 50 * 60))
    for k in range(num_clients):
        weight = mean[k] + generator.standard_normal((10, 60))
        bias = mean[k] + generator.standard_normal(10)
        np.testing.assert_array_equal(labels[k], np.argmax(inputs[k] @ weight.T + bias, axis=1))


def test_sizes_are_fifty_more_than_a_lognormal():
    sizes = draw_sizes(20_000, "lognormal", np.random.default_rng(0))
    assert sizes.min() >= 50
    assert np.median(sizes) == pytest.approx(50 + np.exp(4), rel=0.05)
    assert draw_sizes(3, 40, np.random.default_rng(0)).tolist() == [40, 40, 40]


def test_defaults_are_the_papers():
    task = synthetic_leaf(samples_per_client=50)
    assert task.num_clients == 100
    assert task.model is linear(60, 10)
    assert task.ridge == 0.01
    assert task.train.inputs.dtype == np.float32
    assert (task.sizes.tolist(), task.validation.sizes.tolist(), task.test.sizes.tolist()) == (
        [40] * 100,
        [5] * 100,
        [5] * 100,
    )
    np.testing.assert_array_equal(task.importance, task.sizes)


def test_parts_are_disjoint_and_keep_to_their_client():
    task = synthetic_leaf(num_clients=5, seed=2)
    splits = (task.train, task.validation, task.test)
    rows = np.concatenate([split.rows for split in splits])
    assert np.sort(rows).tolist() == list(range(rows.size))
    for k in range(5):
        mine = np.concatenate([np.asarray(split.rows)[np.asarray(split.owners) == k] for split in splits])
        assert mine.max() - mine.min() + 1 == mine.size  # the generator lays clients out one after another


def test_sizes_of_equal_groups():
    task = synthetic_leaf(6, samples_per_client=[20, 10], validation=0.0, test=0.0)
    assert task.sizes.tolist() == [20, 20, 20, 10, 10, 10]


def test_iid_clients_share_one_model_and_one_centre():
    generator = np.random.default_rng(0)
    owners = np.repeat(np.arange(3), 4000)
    inputs, labels = draw_samples(owners, 3, 2, 3, 0.0, 0.0, generator, iid=True)
    np.testing.assert_allclose([inputs[owners == k].mean(axis=0) for k in range(3)], 0, atol=0.06)
    shares = [np.bincount(labels[owners == k], minlength=3) / 4000 for k in range(3)]
    np.testing.assert_allclose(shares, [shares[0]] * 3, atol=0.05)


def test_seeds_repeat_and_differ():
    first, again, other = (synthetic_leaf(3, samples_per_client=20, seed=seed) for seed in (1, 1, 2))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.train.inputs, other.train.inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clients": 0}, "num_clients must be a whole number from 1"),
        ({"gamma": -0.1}, "gamma must be a finite number of 0 or more"),
        ({"iid": True}, "iid clients do not differ"),
        ({"samples_per_client": 0}, "'lognormal', a positive number or a list"),
        ({"samples_per_client": [5, 0]}, "'lognormal', a positive number or a list"),
        ({"samples_per_client": [5, 6, 7]}, "3 numbers, which is no divisor of the 100 clients"),
        ({"validation": 0.5, "test": 0.6}, "together less than one"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        synthetic_leaf(**options)
