import jax
import jax.random as jr
import numpy as np
import pytest

from turnout.tasks import from_arrays, from_pool, linear
from turnout.tasks.data.checks import check_samples
from turnout.tasks.data.partition import TEST, TRAIN


def ragged(num_samples=60, num_clients=4, features=3, classes=3, seed=0):
    """Samples in no order: client 0 owns many, the last one few."""
    generator = np.random.default_rng(seed)
    owners = np.sort(generator.integers(0, num_clients, num_samples)) ** 2 // num_clients
    owners = generator.permutation(np.concatenate([np.arange(num_clients), owners]) % num_clients)
    inputs = generator.standard_normal((owners.size, features)).astype(np.float32)
    return inputs, generator.integers(0, classes, owners.size), owners


def ragged_task(**options):
    return from_arrays(ragged(), ragged(seed=1), **{"model": linear(3, 3), **options})


def test_validation_is_held_out_of_training_and_never_of_test():
    inputs, labels, owners = ragged(num_samples=200)
    task = from_arrays((inputs, labels, owners), (inputs[:9], labels[:9], owners[:9]), model=linear(3, 3))
    kept, held = np.asarray(task.train.rows), np.asarray(task.validation.rows)
    assert sorted(np.concatenate([kept, held])) == list(range(owners.size))
    np.testing.assert_array_equal(task.validation.sizes, np.floor(0.2 * np.bincount(owners)))
    assert int(task.test.sizes.sum()) == 9
    again = from_arrays((inputs, labels, owners), model=linear(3, 3))
    np.testing.assert_array_equal(held, again.validation.rows)
    other = from_arrays((inputs, labels, owners), model=linear(3, 3), seed=1)
    assert held.tolist() != other.validation.rows.tolist()


def test_given_validation_is_used_and_nothing_is_held_out():
    task = from_arrays(ragged(), validation=ragged(seed=5), model=linear(3, 3))
    assert int(task.sizes.sum()) == 64
    assert task.validation.num_entries == 64
    assert task.test is None
    assert "test_loss" not in jax.eval_shape(task.per_client, task.init(jr.key(0)))


def test_importance_is_by_size_uniform_or_given():
    task = ragged_task()
    np.testing.assert_array_equal(task.importance, task.sizes)
    assert ragged_task(importance="uniform").importance.tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(ragged_task(importance=[0.0, 1.0, 2.0, 1.0]).fleet.target, [0, 0.25, 0.5, 0.25])


def spoil(index=0, **changes):
    names = ("inputs", "labels", "owners")
    arrays = dict(zip(names, (values.copy() for values in ragged()), strict=True))
    for name, value in changes.items():
        if callable(value):
            arrays[name] = value(arrays[name])
        else:
            arrays[name][index] = value
    return tuple(arrays[name] for name in names)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (spoil(index=7, inputs=np.nan), "train: inputs of 1 samples .* first of sample 7"),
        (spoil(inputs=np.inf), "NaN or infinite"),
        (spoil(inputs=lambda x: (x * 1e12).astype(np.int64)), "whole numbers must lie below 2³¹"),
        (spoil(labels=3), "label 3 of sample 0 is out of range; with 3 classes labels go from 0 to 2"),
        (spoil(labels=-1), "label -1"),
        (spoil(labels=lambda y: y.astype(float)), "a class is an integer"),
        (spoil(labels=lambda y: y[1:]), "one label and one owner per sample"),
        (spoil(owners=lambda k: k[1:]), "one label and one owner per sample"),
        (spoil(owners=-1), "owners go from -1"),
        (spoil(owners=lambda k: k.astype(float)), "number the clients from 0, or give their names as text"),
        (spoil(owners=lambda k: k + (k > 1)), "1 of 5 clients have no training sample, the first of them client 2"),
        (spoil(inputs=lambda x: x[:, :2]), "the model does not take samples of shape"),
        ((np.zeros((0, 3)), np.zeros(0, int), np.zeros(0, int)), "there is no sample"),
        ((1.0, 1.0, 1.0), r"train: inputs, labels and owners are of shape \(\), \(\) and \(\)"),
    ],
)
def test_bad_data_is_refused_with_what_where_and_how_to_mend(train, message):
    with pytest.raises(ValueError, match=message):
        from_arrays(train, model=linear(3, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "must be one of cross_entropy"),
        ({"ridge": -1.0}, "ridge must be a finite number of 0 or more, not -1"),
        ({"importance": "sizes"}, "'size', 'uniform' or one number"),
        ({"importance": [1.0, 2.0]}, "4 clients need one number each"),
        ({"importance": [1.0, 2.0, -1.0, 1.0]}, "nowhere negative"),
        ({"validation_share": 1.0}, "together less than one"),
        ({"num_clients": 3}, "with 3 clients they go from 0 to 2"),
        ({"num_clients": 6}, "2 of 6 clients have no training sample"),
        ({"loss": "logistic"}, "needs exactly one"),
        ({"loss": "logistic", "model": linear(3, 1)}, "label 2 .* with 2 classes"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ragged_task(**options)


def named(samples):
    inputs, labels, owners = samples
    return inputs, labels, np.array(["oslo", "lyon", "bern", "rome"])[owners]


def test_clients_may_have_names():
    task = from_arrays(named(ragged()), named(ragged(seed=1)), model=linear(3, 3))
    assert task.names == ("bern", "lyon", "oslo", "rome")
    numbers = from_arrays(ragged(), ragged(seed=1), model=linear(3, 3))
    assert numbers.names is None
    np.testing.assert_array_equal(task.sizes, np.asarray(numbers.sizes)[[2, 1, 0, 3]])
    np.testing.assert_array_equal(task.test.sizes, np.asarray(numbers.test.sizes)[[2, 1, 0, 3]])


def test_names_do_not_change_the_program():
    inputs, labels, owners = ragged()
    one, other = (
        from_pool(inputs, labels, owners, np.full(64, TRAIN), model=linear(3, 3), names=names)
        for names in (["a", "b", "c", "d"], ["e", "f", "g", "h"])
    )
    assert one.names != other.names
    assert jax.tree.structure(one) == jax.tree.structure(other)


def test_names_that_do_not_fit_are_refused():
    inputs, labels, owners = ragged()
    with pytest.raises(ValueError, match=r"test: 1 samples are of clients without a training sample, .* client 'riga'"):
        from_arrays(named(ragged()), (inputs[:1], labels[:1], ["riga"]), model=linear(3, 3))
    for names in (["a", "b", "c"], ["a", "b", "c", "c"]):
        with pytest.raises(ValueError, match=f"names: given {len(names)}, 3 of them different; the 4 clients need"):
            from_pool(inputs, labels, owners, np.full(64, TRAIN), model=linear(3, 3), names=names)
    parts = np.where(owners == 2, TEST, TRAIN)
    with pytest.raises(ValueError, match="the first of them client 'c'"):
        from_pool(inputs, labels, owners, parts, model=linear(3, 3), names=["a", "b", "c", "d"])


def test_test_data_of_unknown_clients_or_other_shapes_are_refused():
    inputs, labels, owners = ragged()
    with pytest.raises(ValueError, match="test: samples are float32 of shape \\(2,\\)"):
        from_arrays(ragged(), (inputs[:, :2], labels, owners), model=linear(3, 3))
    with pytest.raises(ValueError, match="bring all parts alike"):  # bytes would be scaled, floats not
        from_arrays(ragged(), (inputs.astype(np.uint8), labels, owners), model=linear(3, 3))
    with pytest.raises(ValueError, match="4 of 8 clients have no training sample"):
        from_arrays(ragged(), (inputs, labels, owners + 4), model=linear(3, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": np.array([0, 1, 3])}, "rows go from 0 to 3; the pool has rows 0 to 1"),
        ({"owners": np.array([0, -1, 1])}, "owners go from -1 to 1"),
        ({"labels": np.array([0, 2, 1])}, "label 2 of sample 1"),
        ({"parts": np.array([TRAIN, TEST, TEST])}, "no training sample, the first of them client 1"),
    ],
)
def test_entries_that_do_not_fit_the_pool_are_refused(changes, message):
    entries = {"labels": np.array([0, 0, 1]), "owners": np.array([0, 0, 1]), "parts": np.array([TRAIN, TEST, TRAIN])}
    entries = {**entries, "rows": np.array([0, 1, 1]), **changes}
    with pytest.raises(ValueError, match=message):
        from_pool(np.zeros((2, 1), np.float32), **entries, model=linear(1, 2))


def test_inputs_take_the_dtype_the_device_holds():
    for given, held in ((np.float64, np.float32), (np.int64, np.int32), (np.uint8, np.uint8), (bool, np.float32)):
        inputs, _, _ = check_samples("train", (np.ones((2, 3), given), np.zeros(2, int), np.zeros(2, int)))
        assert inputs.dtype == held
