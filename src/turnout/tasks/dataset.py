"""Your own data from a Hugging Face dataset, or a pandas or polars frame: one row per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from turnout.tasks.data.columns import columns_of, dataset_table
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.dealing import Partitioner
from turnout.tasks.data.table_task import table_task
from turnout.tasks.models.model import Model


def from_dataset(
    dataset: Any,
    client: str | Partitioner = "client",
    label: str = "label",
    features: str | Sequence[str] = (),
    part: str | None = None,
    loss: Literal["cross_entropy", "logistic", "squared"] = "cross_entropy",
    model: Literal["linear", "mlp"] | Model = "linear",
    hidden: Sequence[int] = (200, 200),
    standardise: bool = True,
    standardise_label: bool = False,
    ridge: float = 0.0,
    importance: Literal["size", "uniform"] = "size",
    validation: float = 0.2,
    test: float = 0.2,
    num_clients: int | None = None,
    min_size: int = 1,
    seed: int = 0,
) -> DataTask:
    """Make a task of a Hugging Face `Dataset`, a pandas or polars frame, or a dict of columns.

    Args:
        dataset: the samples; or a dict of datasets by part, train, validation and test, as `load_dataset` returns.
        client: column of the clients, or a partitioner of flwr-datasets that makes clients of the rows.
        label: column to predict.
        features: columns to predict from, all others if not given: columns of numbers, or one column of arrays of one
            shape, such as images or tokens. Bytes are scaled to [0, 1], other arrays are taken as they are.
        part: column that says train, validation or test of each row.
        loss: this and all the rest as in `from_csv`.
        model: "linear", "mlp" with these `hidden` layers, or a model of your own.
        hidden: see `from_csv`.
        standardise: of columns of numbers only.
        standardise_label: see `from_csv`.
        ridge: see `from_csv`.
        importance: see `from_csv`.
        validation: see `from_csv`; if the dataset comes in parts, they are taken as they are.
        test: likewise.
        num_clients: see `from_csv`.
        min_size: see `from_csv`.
        seed: see `from_csv`.

    """
    columns, part = columns_of(dataset, part)
    named = (features,) if isinstance(features, str) else tuple(features)
    return table_task(
        dataset_table(columns, client, label, named, part, loss),
        loss=loss,
        model=model,
        hidden=hidden,
        standardise=standardise,
        standardise_label=standardise_label,
        ridge=ridge,
        importance=importance,
        validation=validation,
        test=test,
        num_clients=num_clients,
        min_size=min_size,
        seed=seed,
    )
