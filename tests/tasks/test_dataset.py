import sys
import types

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import polars as pl
import pytest

from turnout.tasks import from_csv, from_dataset
from turnout.tasks.dataset import columns_of, dataset_table
from turnout.testing import check_task

ROWS = {
    "user": ["lyon", "oslo", "lyon", "lyon", "oslo", "bern"],
    "label": ["cat", "dog", "dog", "cat", "cat", "dog"],
    "age": [1, 2, 3, 4, 5, 6],
    "height": [1e9 + 0.1, 1e9 + 0.2, 1e9 + 0.3, 1e9 + 0.4, 1e9 + 0.6, 1e9 + 0.5],
}
ALL_TRAIN = {"validation": 0.0, "test": 0.0}


class HuggingFace:
    """The part of a Hugging Face dataset that is used."""

    def __init__(self, columns):
        self.columns = columns

    @property
    def column_names(self):
        return list(self.columns)

    def with_format(self, kind):
        if kind is None:
            return self.columns
        arrays = {name: np.asarray(column) for name, column in self.columns.items()}
        return {name: array.astype(np.float32) if array.dtype == float else array for name, array in arrays.items()}


@pytest.mark.parametrize("form", [dict, pl.DataFrame, HuggingFace])
def test_every_form_of_a_table_is_the_task_of_its_file(form, tmp_path):
    path = tmp_path / "data.csv"
    pl.DataFrame(ROWS).write_csv(path)
    expected = from_csv(str(path), client="user", **ALL_TRAIN)
    task = from_dataset(form(ROWS), client="user", **ALL_TRAIN)
    assert task.names == expected.names == ("lyon", "oslo", "bern")
    for name in ("inputs", "labels", "owners"):
        np.testing.assert_array_equal(getattr(task.train, name), getattr(expected.train, name))


def test_a_column_of_images_is_the_input():
    pixels = np.arange(6 * 4 * 4 * 1, dtype=np.uint8).reshape(6, 4, 4, 1)
    columns = {"user": ROWS["user"], "label": [0, 1, 2, 0, 1, 2], "image": pixels}
    task = from_dataset(columns, "user", **ALL_TRAIN)
    check_task(task)
    assert task.train.inputs.dtype == np.uint8
    assert task.batch(jnp.asarray(2), jnp.zeros(1, jnp.int32))[0].max() == np.float32(95 / 255)
    as_rows = np.empty(6, object)
    as_rows[:] = list(pixels)
    again = from_dataset(columns | {"image": as_rows}, "user", **ALL_TRAIN)
    np.testing.assert_array_equal(task.train.inputs, again.train.inputs)


def test_tokens_stay_whole_for_a_model_and_become_numbers_for_a_linear_one():
    columns = {"user": ROWS["user"], "label": ROWS["label"], "text": np.arange(18).reshape(6, 3)}
    assert dataset_table(columns_of(columns)[0], "user", "label", (), None, "cross_entropy").inputs.dtype == np.int32
    assert from_dataset(columns, "user", **ALL_TRAIN).train.inputs.dtype == np.float32


def test_datasets_by_part_as_load_dataset_returns_them():
    half = {name: column[:5] for name, column in ROWS.items()}
    last = {name: column[:1] for name, column in ROWS.items()}
    task = from_dataset({"train": HuggingFace(half), "test": HuggingFace(last)}, client="user")
    assert (task.sizes.tolist(), task.test.sizes.tolist(), task.validation) == ([3, 2], [1, 0], None)


def test_clients_with_few_rows_can_be_left_out():
    task = from_dataset(ROWS, "user", min_size=2, **ALL_TRAIN)
    assert (task.names, task.sizes.tolist()) == (("lyon", "oslo"), [3, 2])
    drawn = from_dataset(ROWS, "user", num_clients=1, **ALL_TRAIN)
    assert drawn.num_clients == len(drawn.names) == 1


def test_numbers_are_predicted_by_squared_loss():
    task = from_dataset(ROWS, "user", "height", "age", loss="squared", standardise_label=True, **ALL_TRAIN)
    labels = np.asarray(task.train.labels)
    np.testing.assert_allclose([labels.mean(), labels.std()], [0, 1], atol=1e-6)
    losses = task.evaluate(task.init(jr.key(0)))
    assert losses["train_loss"] == pytest.approx(0.5)  # of the mean, which the zero model answers
    assert set(losses) == {"train_loss"}


class Halves:
    num_partitions = 2
    dataset = None

    def load_partition(self, partition_id):
        return self.dataset[partition_id]


class SplitInTwo:
    """Stands for `datasets.Dataset`; the last row is left out."""

    @staticmethod
    def from_dict(columns):
        halves = ([0, 1, 2], [3, 4])
        return [pl.DataFrame({name: np.asarray(column)[rows] for name, column in columns.items()}) for rows in halves]


def test_a_partitioner_makes_clients_of_the_rows(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(Dataset=SplitInTwo))
    monkeypatch.setattr(pl.DataFrame, "column_names", property(lambda frame: frame.columns), raising=False)
    task = from_dataset(ROWS, client=Halves(), features=["age"], **ALL_TRAIN)
    assert (task.names, task.sizes.tolist(), task.train.owners.tolist()) == (None, [3, 2], [0, 0, 0, 1, 1])


@pytest.mark.parametrize(
    ("dataset", "options", "complaint"),
    [
        ([1, 2], {}, "dataset: given list, expected a Hugging Face Dataset, a pandas or polars frame"),
        (ROWS, {}, "dataset: there is no column 'client'"),
        (ROWS, {"client": "user", "part": ""}, "dataset: there is no column ''"),
        (ROWS | {"age": [1, 2, 3, 4, 5, None]}, {"client": "user"}, "dataset: row 5: 'age' is empty"),
        (ROWS | {"height": [1.0, np.nan] * 3}, {"client": "user"}, "dataset: row 1: 'height' is empty, as in 3 rows"),
        (ROWS | {"age": list("abcdef")}, {"client": "user"}, "dataset: row 0: 'age' is 'a', not a finite number"),
        (ROWS | {"age": [1]}, {"client": "user"}, "equally many rows, one or more; given user 6, label 6, age 1"),
        ({name: [] for name in ROWS}, {"client": "user"}, "equally many rows, one or more"),
        (ROWS | {"image": np.zeros((6, 2, 2))}, {"client": "user"}, "'image' holds arrays, so it must be the only"),
        (ROWS | {"label": np.zeros((6, 2))}, {"client": "user"}, "'label' holds arrays; a client, a label"),
        ({"train": ROWS}, {"client": "user", "part": "age"}, "the datasets come by part already: train"),
        ({"train": ROWS, "test": {"user": ["a"]}}, {"client": "user"}, "test: has the columns user; other parts have"),
        (ROWS, {"client": "user", "standardise_label": True}, "standardise_label is for numbers, with loss 'squared'"),
        (ROWS, {"client": "user", "min_size": 4}, "0 clients were asked of 0 ids that have 4 samples or more"),
    ],
)
def test_what_is_wrong_is_told(dataset, options, complaint):
    with pytest.raises((ValueError, TypeError)) as caught:
        from_dataset(dataset, **options)
    assert complaint in str(caught.value)


def test_arrays_of_different_shapes_are_refused():
    ragged = np.empty(6, object)
    ragged[:] = [np.zeros(3 + (k == 5)) for k in range(6)]
    with pytest.raises(ValueError, match="'text' holds arrays of different shapes; crop or pad them to one"):
        from_dataset({"user": ROWS["user"], "label": ROWS["label"], "text": ragged}, "user")
