import sys
import types

import numpy as np
import pytest

from turnout.tasks import digits
from turnout.tasks.data.dealing import PARTITIONS, deal, deal_by
from turnout.tasks.data.partition import pathological, power_law
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import read_part


class Dataset:
    """The part of a Hugging Face dataset that partitioners use."""

    def __init__(self, columns):
        self.columns = columns

    @classmethod
    def from_dict(cls, columns):
        return cls({name: np.asarray(column) for name, column in columns.items()})

    @property
    def column_names(self):
        return list(self.columns)

    def __getitem__(self, name):
        return self.columns[name]

    def select(self, rows):
        return Dataset({name: column[rows] for name, column in self.columns.items()})


class ByLabel:
    """A partitioner: labels below `num_partitions` are clients, samples of other labels are left out."""

    def __init__(self, num_partitions):
        self.num_partitions = num_partitions
        self._dataset = None

    @property
    def dataset(self):
        return self._dataset

    @dataset.setter
    def dataset(self, dataset):
        assert self._dataset is None, "flwr-datasets takes one dataset only"
        self._dataset = dataset

    def load_partition(self, partition_id):
        return self._dataset.select(np.flatnonzero(self._dataset["label"] == partition_id))


class Columns(ByLabel):
    def load_partition(self, partition_id):
        return Dataset({"label": self._dataset["label"]})


class Twice(ByLabel):
    def load_partition(self, partition_id):
        return self._dataset


@pytest.fixture(autouse=True)
def _datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(Dataset=Dataset))


LABELS = np.array([1, 0, 2, 1])


def test_a_partitioner_says_who_owns_which_row_again_and_again():
    partitioner = ByLabel(2)
    for _ in range(2):
        owners, count = deal_by(partitioner, {"label": LABELS})
        assert (owners.tolist(), count) == ([1, 0, -1, 1], 2)


def test_a_task_leaves_out_what_no_partition_has():
    task = digits(num_clients=4, partition=ByLabel(4))
    for split in (task.train, task.validation, task.test):
        np.testing.assert_array_equal(split.labels, split.owners)
    assert int(task.sizes.sum() + task.validation.sizes.sum() + task.test.sizes.sum()) == 178 + 182 + 177 + 183


def test_an_experiment_names_a_partitioner_in_a_table():
    table = {"name": "digits", "num_clients": 3, "partition": {"name": f"{__name__}:ByLabel", "num_partitions": 3}}
    task = read_part("tasks", table, "task").build()
    np.testing.assert_array_equal(task.train.labels, task.train.owners)
    with pytest.raises(ExperimentError, match=r'task.partition: given 1, expected one of "iid", .* or a table'):
        read_part("tasks", table | {"partition": 1}, "task")


def test_options_go_to_the_partitions_that_take_them():
    labels = np.repeat(np.arange(5), 40)
    options = {"alpha": 0.5, "min_size": 3, "per_client": 3, "exponent": 2.0}
    for name in PARTITIONS:
        assert deal(name, labels, 10, seed=1, **options).shape == labels.shape
    np.testing.assert_array_equal(deal("pathological", labels, 10, 1, **options), pathological(labels, 10, 3, 1))
    np.testing.assert_array_equal(deal("power_law", labels, 10, 1, **options), power_law(labels, 10, 2.0, 3, 1))


@pytest.mark.parametrize(
    ("partition", "complaint"),
    [
        (ByLabel(3), "ByLabel makes 3 partitions, but num_clients is 2: give both the same number"),
        (Columns(2), "Columns splits columns; clients need a partition of the rows"),
        (Twice(2), "Twice gives a row to two clients"),
    ],
)
def test_what_is_no_partition_of_the_rows_is_refused(partition, complaint):
    with pytest.raises(ValueError, match=complaint):
        deal(partition, LABELS, 2)


def test_without_datasets_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match="pip install flwr-datasets"):
        deal(ByLabel(2), LABELS, 2)
