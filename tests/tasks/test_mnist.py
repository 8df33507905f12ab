"""MNIST and Fashion-MNIST, on tiny files in their format."""

import gzip
import hashlib
import importlib
import os

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from test_idx import packed

from turnout.tasks import linear
from turnout.tasks.data.idx import FILES
from turnout.testing import check_task
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import read_part

MODULES = {name: importlib.import_module(f"turnout.tasks.{name}") for name in ("mnist", "fashion_mnist")}


@pytest.fixture
def tiny_data(data_folder, monkeypatch, pictures):
    """Data sets of 240 + 60 images instead of the real ones."""
    for data_set, module in MODULES.items():
        (data_folder / data_set).mkdir()
        checksums = []
        for name, array in zip(FILES, (*pictures(240, 28, 28), *pictures(60, 28, 28, seed=1)), strict=True):
            content = packed(array)
            (data_folder / data_set / name).write_bytes(gzip.compress(content))
            checksums.append(("", hashlib.md5(content).hexdigest()))
        monkeypatch.setattr(module, "IMAGES", module.IMAGES._replace(checksums=tuple(checksums)))


@pytest.fixture
def tiny(tiny_data):
    return MODULES["mnist"].mnist


@pytest.fixture(params=MODULES)
def each(request, tiny_data):
    return getattr(MODULES[request.param], request.param)


def entries(task):
    splits = [split for split in (task.train, task.validation, task.test) if split is not None]
    return tuple(np.concatenate([getattr(split, name) for split in splits]) for name in ("rows", "labels", "owners"))


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "one_class_a_client"])
def test_every_image_is_used_once(tiny, partition):
    task = tiny(num_clients=12, partition=partition)
    rows, labels, owners = entries(task)
    assert np.sort(rows).tolist() == list(range(300))
    assert rows[-60:].min() == 240  # the test images are those of the test file
    assert int(task.sizes.min()) + int(task.validation.sizes.min()) >= 10
    if partition == "one_class_a_client":
        np.testing.assert_array_equal(owners % 10, labels)


def test_the_task_keeps_its_contract(each):
    check_task(each(num_clients=6))


def test_images_are_bytes_until_a_batch_is_cut(each):
    module = MODULES[each.__name__]
    task = each(num_clients=6)
    assert task.train.inputs.dtype == jnp.uint8
    pixels = np.asarray(task.train.inputs)[np.asarray(task.train.rows[:4])] / 255
    mean, deviation = module.COLOURS.mean[0], module.COLOURS.deviation[0]
    np.testing.assert_allclose(task.train.cut(jnp.arange(4))[0], (pixels - mean) / deviation, atol=1e-5)
    plain = each(num_clients=6, pixels="unit")
    np.testing.assert_allclose(plain.train.cut(jnp.arange(4))[0], pixels, atol=1e-6)


def test_a_share_of_each_clients_images_validates(tiny):
    task = tiny(num_clients=6, partition="iid", validation=0.25)
    assert task.sizes.tolist() == [30] * 6
    assert task.validation.sizes.tolist() == [10] * 6
    assert tiny(num_clients=6, validation=0.0).validation is None


def test_a_common_test_set_is_judged_as_it_is(tiny):
    task = tiny(num_clients=6, test_set="common", swapped_pairs=2)
    params = {"weight": jr.normal(jr.key(0), (10, 784)), "bias": jnp.zeros(10)}
    inputs, labels = task.test.cut(jnp.arange(60))
    expected = np.mean(np.argmax(np.asarray(task.model.apply(params, inputs)), axis=1) == np.asarray(labels))
    assert float(eqx.filter_jit(task.evaluate)(params)["test_accuracy"]) == pytest.approx(expected)
    np.testing.assert_array_equal(labels, tiny(num_clients=6, test_set="common").test.labels)


def test_the_second_group_sees_swapped_labels_in_every_split(tiny):
    plain, swapped = (tiny(num_clients=6, partition="iid", swapped_pairs=pairs) for pairs in (0, 2))
    for split in ("train", "validation", "test"):
        before, after = (np.asarray(getattr(task, split).labels) for task in (plain, swapped))
        owners = np.asarray(getattr(plain, split).owners)
        assert owners[before != after].min() == 3
        changed = set(zip(before[before != after].tolist(), after[before != after].tolist(), strict=True))
        assert changed <= {pair for a, b in changed for pair in ((a, b), (b, a))}
        assert len({frozenset(pair) for pair in changed}) == 2


def test_fewer_images_of_both_sets(tiny):
    task = tiny(num_clients=4, partition="iid", num_images=60)
    assert int(task.sizes.sum()) + int(task.validation.sizes.sum()) == 60
    assert int(task.test.sizes.sum()) == 15
    with pytest.raises(ValueError, match="num_images is 241; there are 240"):
        tiny(num_images=241)


def test_the_seed_decides(tiny):
    first, again, other = (tiny(num_clients=5, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.train.rows, again.train.rows)
    assert first.train.rows.shape != other.train.rows.shape or (first.train.rows != other.train.rows).any()


def test_models_by_name(tiny):
    assert tiny(num_clients=5).model is linear(784, 10)
    assert tiny(num_clients=5, model="mlp", hidden=[8]).model is tiny(num_clients=5, model="mlp", hidden=[8]).model


def test_a_missing_file_says_both_ways_on_one_line(each, data_folder):
    (data_folder / each.__name__ / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        each(num_clients=5)
    told = str(caught.value)
    assert told.startswith(f"{each.__name__}/t10k-labels-idx1-ubyte.gz is missing")
    assert "set TURNOUT_DATA to a folder" in told
    assert f"python -c 'from turnout.tasks.{each.__name__} import load; load()'" in told
    assert "pip install pooch" in told
    assert "\n" not in told


def test_a_damaged_file_is_named(tiny, data_folder):
    path = data_folder / tiny.__name__ / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte.gz is damaged"):
        tiny(num_clients=5)


def test_an_experiment_names_it(each, data_folder):
    table = {"name": each.__name__, "num_clients": 4, "alpha": 0.5, "model": "linear", "ridge": 1e-2}
    assert read_part("tasks", table, "task").build().num_clients == 4
    os.remove(data_folder / each.__name__ / "train-images-idx3-ubyte.gz")
    with pytest.raises(ExperimentError, match=r"^task: \w+/train-images-idx3-ubyte.gz is missing"):
        read_part("tasks", table, "task").build()
    with pytest.raises(ExperimentError, match="partition"):
        read_part("tasks", table | {"partition": "by_hand"}, "task")
