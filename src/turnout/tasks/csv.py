"""Your own data from a CSV file: one row per sample, with a column for its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from turnout.tasks.arrays import from_pool
from turnout.tasks.data.csv_table import read_table
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TRAIN, divide
from turnout.tasks.models.model import Model, linear, mlp


def csv(
    path: str,
    client: str = "client",
    label: str = "label",
    features: Sequence[str] = (),
    part: str | None = None,
    loss: Literal["cross_entropy", "logistic", "squared"] = "cross_entropy",
    model: Literal["linear", "mlp"] | Model = "linear",
    hidden: Sequence[int] = (200, 200),
    standardise: bool = True,
    ridge: float = 0.0,
    importance: Literal["size", "uniform"] = "size",
    validation: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
) -> DataTask:
    """Make a task of a CSV (also .csv.gz) or Parquet file.

    Args:
        path: the file; also looked for in the folder that TURNOUT_DATA names.
        client: column of the clients, text or numbers; they are numbered as the file first names them.
        label: column to predict: a class, text or a number, or for "squared" any number.
        features: columns of numbers to predict from; all other columns if none are named.
        part: column that says train, validation or test of each row; without one, rows are held out at random.
        loss: "cross_entropy" for classes, "logistic" for two of them with one output, "squared" for numbers.
        model: "linear", "mlp" with these `hidden` layers, or a model of your own.
        hidden: widths of the hidden layers of "mlp".
        standardise: bring each feature to mean 0 and deviation 1 over the training rows.
        ridge: factor of the penalty ½ ‖w‖².
        importance: how much a client counts: by its training rows ("size"), or all alike ("uniform").
        validation: share of each client's rows that is held out for validation.
        test: share of each client's rows that is held out for testing.
        seed: of the choice of held-out rows.

    """
    kind = {"cross_entropy": "class", "logistic": "binary", "squared": "real"}.get(loss)
    if kind is None:
        raise ValueError(f"loss is {loss!r}; it must be 'cross_entropy', 'logistic' or 'squared'")
    table = read_table(path, client, label, tuple(features), part, kind)
    parts = divide(table.owners, validation, test, seed) if table.parts is None else table.parts
    inputs = (_standardised(table.inputs, parts) if standardise else table.inputs).astype(np.float32)
    return from_pool(
        inputs,
        table.labels,
        table.owners,
        parts,
        model=_model(model, inputs.shape[1], len(table.classes) if loss == "cross_entropy" else 1, tuple(hidden)),
        loss=loss,
        ridge=ridge,
        importance=importance,
        num_clients=len(table.clients),
        names=table.clients,
    )


def _standardised(inputs: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Features with mean 0 and deviation 1 over the training rows; one that is constant there is only shifted."""
    training = inputs[parts == TRAIN]
    varies = np.ptp(training, axis=0) > 0  # rounding gives the deviation of a constant some digits, too
    return (inputs - training.mean(axis=0)) / np.where(varies, training.std(axis=0), 1.0)


def _model(model: str | Model, num_inputs: int, num_outputs: int, hidden: tuple[int, ...]) -> Model:
    if isinstance(model, Model):
        return model
    if model not in ("linear", "mlp"):
        raise ValueError(f"model is {model!r}; it must be 'linear', 'mlp' or a Model")
    return mlp(num_inputs, hidden, num_outputs) if model == "mlp" else linear(num_inputs, num_outputs)
