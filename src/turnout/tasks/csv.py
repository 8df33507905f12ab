"""Your own data from a CSV file: one row per sample, with a column for its client."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.sample_table import read_table
from turnout.tasks.data.shared_arguments import with_arguments_of
from turnout.tasks.data.table_task import TableOptions, table_task


@dataclass(frozen=True)
class CsvOptions(TableOptions):
    """The file and its columns, beside what all tables have."""

    path: str  # also looked for in the folder that TURNOUT_DATA names
    client: str = "client"  # column of the clients, text or numbers; they are numbered as the file first names them
    label: str = "label"  # column to predict: a class, text or a number, or for "squared" any number
    features: Sequence[str] = ()  # columns of numbers to predict from; all other columns if none are named
    part: str | None = None  # column of train, validation or test; without one, rows are held out at random


@with_arguments_of(CsvOptions)
def csv(options: CsvOptions) -> DataTask:
    """Make a task of a CSV (also .csv.gz) or Parquet file; the arguments are explained in the docs on your own data."""
    table = read_table(options.path, options.client, options.label, tuple(options.features), options.part, options.loss)
    return table_task(table, options)
