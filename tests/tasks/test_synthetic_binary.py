import numpy as np
import pytest

from turnout.tasks import synthetic_binary


def test_defaults_are_the_papers():
    task = synthetic_binary()
    assert task.num_clients == 24
    assert task.sizes.tolist() == [150] * 24
    assert task.validation.sizes.tolist() == [50] * 24
    assert task.test.sizes.tolist() == [150] * 24
    assert task.ridge == 0.01
    assert task.train.inputs.shape == (24 * 350, 10)


def test_parts_are_disjoint():
    task = synthetic_binary(num_clients=3)
    rows = np.concatenate([split.rows for split in (task.train, task.validation, task.test)])
    assert np.sort(rows).tolist() == list(range(3 * 350))


def test_the_second_group_sees_a_fifth_of_the_labels_turned():
    # The best guess is the sign of w x; if it is right with rate a in the first group, it is right with rate
    # 0.8 a + 0.2 (1 − a) in the second.
    task = synthetic_binary(2, 1, samples_per_client=100_000, groups="halves", seed=3)
    x = np.asarray(task.train.inputs)[np.asarray(task.train.rows)][:, 0]
    y, owners = np.asarray(task.train.labels), np.asarray(task.train.owners)
    agrees = (x > 0) == (y == 1)
    first, second = (agrees[owners == group].mean() for group in (0, 1))
    if first < 0.5:  # w* was negative
        first, second = 1 - first, 1 - second
    assert first > 0.55
    assert second == pytest.approx(0.8 * first + 0.2 * (1 - first), abs=0.01)
    assert x.std() == pytest.approx(1.0, rel=0.02)


def test_labels_of_the_first_group_follow_the_sigmoid():
    task = synthetic_binary(1, 1, samples_per_client=200_000, groups="halves", seed=4)
    w = np.random.default_rng(4).standard_normal(1)[0]
    x = np.asarray(task.train.inputs)[np.asarray(task.train.rows)][:, 0]
    y = np.asarray(task.train.labels)
    for low, high in ((-1.5, -1.4), (0.4, 0.5), (1.0, 1.1)):
        near = (x > low) & (x < high)
        assert y[near].mean() == pytest.approx(1 / (1 + np.exp(-w * (low + high) / 2)), abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flip": 1.2}, "flip must be a number from 0 to 1"),
        ({"samples_per_client": 0}, "must be a whole number from 1"),
        ({"test_per_client": -1}, "must be a whole number from 0"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        synthetic_binary(**options)
