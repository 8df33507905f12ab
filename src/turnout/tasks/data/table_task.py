"""Tasks from tables of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from turnout.tasks.arrays import from_pool
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TRAIN, by_id, divide
from turnout.tasks.data.sample_table import SampleTable
from turnout.tasks.models.model import Model, linear, mlp


def table_task(
    table: SampleTable,
    *,
    loss: str,
    model: str | Model,
    hidden: Sequence[int],
    standardise: bool,
    standardise_label: bool,
    ridge: float,
    importance: Literal["size", "uniform"],
    validation: float,
    test: float,
    num_clients: int | None,
    min_size: int,
    seed: int,
) -> DataTask:
    """The task of a table; `tasks.from_csv` explains the arguments."""
    if num_clients is not None or min_size > 1:
        table = _of_clients(table, num_clients, min_size, seed)
    parts = divide(table.owners, validation, test, seed) if table.parts is None else table.parts
    inputs, labels = table.inputs, table.labels
    if inputs.dtype == np.float64:  # columns of numbers
        inputs = (_standardised(inputs, parts) if standardise else inputs).astype(np.float32)
    if standardise_label:
        if loss != "squared":
            raise ValueError(f"standardise_label is for numbers, with loss 'squared'; loss is {loss!r}")
        labels = _standardised(labels[:, None], parts)[:, 0]
    if isinstance(model, str) and np.issubdtype(inputs.dtype, np.integer) and inputs.dtype != np.uint8:
        inputs = inputs.astype(np.float32)
    num_outputs = len(table.classes) if loss == "cross_entropy" else 1
    return from_pool(
        inputs,
        labels,
        table.owners,
        parts,
        model=_model(model, int(np.prod(inputs.shape[1:])), num_outputs, tuple(hidden)),
        loss=loss,
        ridge=ridge,
        importance=importance,
        num_clients=table.num_clients,
        names=table.clients,
    )


def _of_clients(table: SampleTable, num_clients: int | None, min_size: int, seed: int) -> SampleTable:
    """The samples of clients that have enough, or of so many drawn from these, in their order."""
    owners = by_id(table.owners, num_clients, min_size, seed)
    kept = owners >= 0
    return replace(
        table,
        inputs=table.inputs[kept],
        labels=table.labels[kept],
        owners=owners[kept],
        parts=None if table.parts is None else table.parts[kept],
        clients=None if table.clients is None else tuple(table.clients[k] for k in np.unique(table.owners[kept])),
        num_clients=int(owners.max()) + 1,
    )


def _standardised(numbers: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1 over the training rows; one that is constant there is only shifted."""
    training = numbers[parts == TRAIN]
    varies = np.ptp(training, axis=0) > 0  # rounding gives the deviation of a constant some digits, too
    return (numbers - training.mean(axis=0)) / np.where(varies, training.std(axis=0), 1.0)


def _model(model: str | Model, num_inputs: int, num_outputs: int, hidden: tuple[int, ...]) -> Model:
    if isinstance(model, Model):
        return model
    if model not in ("linear", "mlp"):
        raise ValueError(f"model is {model!r}; it must be 'linear', 'mlp' or a Model")
    return mlp(num_inputs, hidden, num_outputs) if model == "mlp" else linear(num_inputs, num_outputs)
