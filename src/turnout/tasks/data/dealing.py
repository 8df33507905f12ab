"""Partitions as a user names them: one of ours, or a partitioner of flwr-datasets."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from turnout.tasks.data import partition as ways
from turnout.tasks.data.partition import Labels, Owners

Way = Literal["iid", "dirichlet", "one_class_a_client", "pathological", "shards", "power_law"]
PARTITIONS: dict[str, Callable[..., Owners]] = {
    "iid": ways.iid,
    "dirichlet": ways.dirichlet,
    "one_class_a_client": ways.one_class_a_client,
    "pathological": ways.pathological,
    "shards": ways.shards,
    "power_law": ways.power_law,
}
ROW = "turnout_row"  # column by which the rows of a partition are recognised


@runtime_checkable
class Partitioner(Protocol):
    """A partitioner of flwr-datasets, or anything alike: it also has `num_partitions`, and takes a `dataset`."""

    def load_partition(self, partition_id: int) -> Any: ...


def deal(partition: str | Partitioner, labels: Labels, num_clients: int, seed: int = 0, **options: Any) -> Owners:
    """The owner of each sample, −1 where it has none.

    A partition of ours gets those of the options that it takes. A partitioner splits a dataset with the column `label`
    and has options and a seed of its own.
    """
    if isinstance(partition, Partitioner):
        owners, count = deal_by(partition, {"label": labels})
        if count != num_clients:
            raise ValueError(
                f"{type(partition).__name__} makes {count} partitions, but num_clients is {num_clients}: "
                "give both the same number"
            )
        return owners
    if partition not in PARTITIONS:
        raise ValueError(f"partition is {partition!r}; it must be one of {', '.join(PARTITIONS)}, or a partitioner")
    build = PARTITIONS[partition]
    taken = {name: value for name, value in options.items() if name in inspect.signature(build).parameters}
    return build(labels, num_clients, seed=seed, **taken)


def deal_by(partitioner: Partitioner, columns: Mapping[str, np.ndarray]) -> tuple[Owners, int]:
    """The owner of each row by a partitioner of flwr-datasets, −1 where it has none, and the number of partitions."""
    try:
        from datasets import Dataset  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("partitioners split a Hugging Face dataset: pip install flwr-datasets") from error
    (num_rows,) = {len(column) for column in columns.values()}
    fresh: Any = copy.deepcopy(partitioner)  # a partitioner takes a dataset only once
    fresh.dataset = Dataset.from_dict({**columns, ROW: np.arange(num_rows)})
    owners = np.full(num_rows, -1, np.int64)
    for client in range(fresh.num_partitions):
        part = fresh.load_partition(client)
        if ROW not in part.column_names:
            raise ValueError(f"{type(partitioner).__name__} splits columns; clients need a partition of the rows")
        rows = np.asarray(part[ROW], np.int64)
        if (owners[rows] >= 0).any():
            raise ValueError(f"{type(partitioner).__name__} gives a row to two clients; each may have one owner")
        owners[rows] = client
    return owners, int(fresh.num_partitions)
