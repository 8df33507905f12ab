"""Your own data from a Hugging Face dataset, or a pandas or polars frame: one row per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from turnout.errors import check_installed
from turnout.tasks.data.checks import in_32_bits
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.dealing import ROW, Partitioner, deal_by
from turnout.tasks.data.partition import PARTS
from turnout.tasks.data.sample_table import SampleTable, Where, table_of
from turnout.tasks.data.shared_arguments import with_arguments_of
from turnout.tasks.data.table_task import TableOptions, table_task

if TYPE_CHECKING:
    import polars as pl


Columns = dict[str, np.ndarray]
SOURCE = "dataset"  # as errors call it
MISSING = ("nan", "<NA>", "NaT")  # as numpy and pandas write it
PART = "turnout_part"  # column that says from which of several datasets a row is


def columns_of(dataset: Any, part: str | None = None) -> tuple[Columns, str | None]:
    """The columns of a dataset as arrays, and the column of parts; one is made where datasets come by part."""
    if not isinstance(dataset, Mapping) or not set(dataset) <= set(PARTS) or not dataset:
        return _columns(dataset), part
    if part is not None:
        raise ValueError(f"part is {part!r}, but the datasets come by part already: {', '.join(dataset)}")
    by_part = {name: _columns(rows) for name, rows in dataset.items()}
    first = next(iter(by_part.values()))
    for name, columns in by_part.items():
        if set(columns) != set(first):
            raise ValueError(f"{name}: has the columns {', '.join(columns)}; other parts have {', '.join(first)}")
    joined = {name: np.concatenate([columns[name] for columns in by_part.values()]) for name in first}
    sizes = [len(next(iter(columns.values()))) for columns in by_part.values()]
    return joined | {PART: np.repeat(list(by_part), sizes)}, PART


def _columns(dataset: Any) -> Columns:
    if hasattr(dataset, "with_format") and hasattr(dataset, "column_names"):  # Hugging Face
        columns = {name: _of_hugging_face(dataset, name) for name in dataset.column_names}
    elif isinstance(dataset, Mapping):
        columns = dict(dataset)
    elif hasattr(dataset, "columns") and hasattr(dataset, "__getitem__"):  # pandas, polars
        columns = {str(name): dataset[name].to_numpy() for name in dataset.columns}
    else:
        raise TypeError(
            f"{SOURCE}: given {type(dataset).__name__}, expected a Hugging Face Dataset, a pandas or polars frame, or "
            "a dict of columns"
        )
    arrays = {name: _array(name, values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) != 1 or not len(next(iter(arrays.values()))):
        sizes = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ValueError(f"{SOURCE}: columns must have equally many rows, one or more; given {sizes or 'no column'}")
    return arrays


def _of_hugging_face(dataset: Any, name: str) -> Any:
    """A column as arrays, pictures too; numbers in double precision, of which the numpy format keeps half."""
    values = dataset.with_format("numpy")[name][:]
    plain = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "f"
    return dataset.with_format(None)[name][:] if plain else values


def _array(name: str, values: Any) -> np.ndarray:
    """A column as an array; rows that are arrays of one shape become one array."""
    array = np.asarray(values)
    if array.dtype != object or not len(array) or np.ndim(array[0]) == 0:
        return array
    rows = [np.asarray(row) for row in array]
    if len({row.shape for row in rows}) > 1:
        raise ValueError(f"{SOURCE}: {name!r} holds arrays of different shapes; crop or pad them to one")
    return np.stack(rows)


def dataset_table(
    columns: Columns, client: str | Partitioner, label: str, features: tuple[str, ...], part: str | None, loss: str
) -> SampleTable:
    """The samples of a dataset, by a column of clients or by a partitioner."""
    count, owners = 0, None
    if isinstance(client, Partitioner):
        owners, count = deal_by(client, {name: column for name, column in columns.items() if column.ndim == 1})
        kept = owners >= 0
        columns, owners, client = {name: column[kept] for name, column in columns.items()}, owners[kept], ROW
        columns[ROW] = owners
    elif not isinstance(client, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"client must be the name of a column or a partitioner, not an object of {type(client).__name__}"
        )
    for name in (client, label, part):
        if name in columns and columns[name].ndim > 1:
            raise ValueError(f"{SOURCE}: {name!r} holds arrays; a client, a label and a part are one value per row")
    inputs, features = _inputs(columns, {client, label, part}, features)
    table = table_of(_frame(columns), Where(SOURCE, 0, "row"), client, label, features, part, loss, inputs)
    return table if owners is None else replace(table, owners=owners, clients=None, num_clients=count)


def _inputs(
    columns: Columns, special: set[Any], features: tuple[str, ...]
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The one column of arrays among the features, if there is one; and else the features."""
    wanted = features or tuple(name for name in columns if name not in special)
    of_arrays = [name for name in wanted if name in columns and columns[name].ndim > 1]
    if not of_arrays:
        return None, features
    if len(wanted) > 1:
        raise ValueError(
            f"{SOURCE}: {of_arrays[0]!r} holds arrays, so it must be the only feature; name it alone in features, "
            f"which are {', '.join(wanted)}"
        )
    array = columns[of_arrays[0]]
    return array if array.dtype == np.uint8 else in_32_bits(of_arrays[0], array), ()


def _frame(columns: Columns) -> pl.DataFrame:
    """Columns of single values as text, which is what a file holds; missing values are null."""
    check_installed("polars", f"{SOURCE}: a table of samples")
    import polars as pl

    return pl.DataFrame({name: _text(column) for name, column in columns.items() if column.ndim == 1})


def _text(column: np.ndarray) -> pl.Series:
    import polars as pl

    if column.dtype.kind in "biuf":
        numbers = pl.Series(column.astype(np.int8) if column.dtype == bool else column)
        return (numbers.fill_nan(None) if column.dtype.kind == "f" else numbers).cast(pl.String)
    texts = [None if value is None else str(value) for value in column.tolist()]
    return pl.Series([None if text in MISSING else text for text in texts], dtype=pl.String)


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
