"""Your own data from a Hugging Face dataset, or a pandas or polars frame: one row per sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnout.tasks.data.columns import columns_of, dataset_table
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.dealing import Partitioner
from turnout.tasks.data.shared_arguments import with_arguments_of
from turnout.tasks.data.table_task import TableOptions, table_task


@dataclass(frozen=True)
class DatasetOptions(TableOptions):
    """The samples and their columns, beside what all tables have."""

    dataset: Any  # or a dict of datasets by part, train, validation and test, which are then taken as they are
    client: str | Partitioner = "client"  # column of the clients, or a partitioner that makes clients of the rows
    label: str = "label"  # column to predict
    # Columns of numbers, or one column of arrays of one shape, such as images or tokens; all other columns if not
    # given. Bytes are scaled to [0, 1], other arrays are taken as they are.
    features: str | Sequence[str] = ()
    part: str | None = None  # column of train, validation or test; without one, rows are held out at random


@with_arguments_of(DatasetOptions)
def from_dataset(options: DatasetOptions) -> DataTask:
    """Make a task of a Hugging Face `Dataset`, a pandas or polars frame, or a dict of columns.

    A dict may also hold one dataset per part, as `load_dataset` returns it. The arguments are explained in the docs on
    your own data.
    """
    columns, part = columns_of(options.dataset, options.part)
    features = (options.features,) if isinstance(options.features, str) else tuple(options.features)
    table = dataset_table(columns, options.client, options.label, features, part, options.loss)
    return table_task(table, options)
