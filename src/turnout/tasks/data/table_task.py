"""Tasks from tables of samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from turnout.declarations import Count, NotNegative, Seed, Share
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TRAIN, by_id, divide
from turnout.tasks.data.sample_table import SampleTable
from turnout.tasks.models.model import Model, linear, mlp


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The arguments that tasks of tables share: the model, and which rows of which clients it is fitted to."""

    loss: Literal["cross_entropy", "logistic", "squared"] = "cross_entropy"  # "logistic": two classes, one output
    model: Literal["linear", "mlp"] | Model = "linear"
    hidden: Sequence[Count] = (200, 200)  # widths of the hidden layers of "mlp"
    standardise: bool = True  # each column of numbers to mean 0 and deviation 1 over the training rows
    standardise_label: bool = False  # the label likewise, for "squared": a constant then has a loss of ½
    ridge: NotNegative = 0.0  # factor of the penalty ½ ‖w‖²
    importance: Literal["size", "uniform"] = "size"  # a client counts by its training rows, or all alike
    validation: Share = 0.2  # share of each client's rows
    test: Share = 0.2
    num_clients: Count | None = None  # draw so many of the clients; all if not given
    min_size: Count = 1  # clients of fewer rows are left out
    seed: Seed = 0  # of the choice of held-out rows, and of clients


def table_task(table: SampleTable, options: TableOptions) -> DataTask:
    """The task of a table."""
    if options.num_clients is not None or options.min_size > 1:
        table = _choose_clients(table, options)
    parts = table.parts
    if parts is None:
        parts = divide(table.owners, options.validation, options.test, options.seed)
    inputs = _prepare_inputs(table.inputs, parts, options)
    num_outputs = len(table.classes) if options.loss == "cross_entropy" else 1
    return from_pool(
        inputs,
        _prepare_labels(table.labels, parts, options),
        table.owners,
        parts,
        model=_model(options, int(np.prod(inputs.shape[1:])), num_outputs),
        loss=options.loss,
        ridge=options.ridge,
        importance=options.importance,
        num_clients=table.num_clients,
        names=table.clients,
    )


def _choose_clients(table: SampleTable, options: TableOptions) -> SampleTable:
    """The samples of clients that have enough, or of so many drawn from these, in their order."""
    owners = by_id(table.owners, options.num_clients, options.min_size, options.seed)
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


def _prepare_inputs(inputs: np.ndarray, parts: np.ndarray, options: TableOptions) -> np.ndarray:
    if inputs.dtype == np.float64:  # columns of numbers
        return (_standardise(inputs, parts) if options.standardise else inputs).astype(np.float32)
    whole = np.issubdtype(inputs.dtype, np.integer) and inputs.dtype != np.uint8
    return inputs.astype(np.float32) if whole and isinstance(options.model, str) else inputs


def _prepare_labels(labels: np.ndarray, parts: np.ndarray, options: TableOptions) -> np.ndarray:
    if not options.standardise_label:
        return labels
    if options.loss != "squared":
        raise ValueError(f"standardise_label is for numbers, with loss 'squared'; loss is {options.loss!r}")
    return _standardise(labels[:, None], parts)[:, 0]


def _standardise(numbers: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1 over the training rows; one that is constant there is only shifted."""
    training = numbers[parts == TRAIN]
    varies = np.ptp(training, axis=0) > 0  # rounding gives the deviation of a constant some digits, too
    return (numbers - training.mean(axis=0)) / np.where(varies, training.std(axis=0), 1.0)


def _model(options: TableOptions, num_inputs: int, num_outputs: int) -> Model:
    if isinstance(options.model, Model):
        return options.model
    if options.model == "linear":
        return linear(num_inputs, num_outputs)
    if options.model == "mlp":
        return mlp(num_inputs, tuple(options.hidden), num_outputs)
    raise ValueError(f"model is {options.model!r}; it must be 'linear', 'mlp' or a Model")
