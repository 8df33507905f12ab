"""Your own data from a CSV file: one row per sample, with a column for its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turnout.tasks.data.csv_table import read_table
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.table_task import table_task
from turnout.tasks.models.model import Model


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
    num_clients: int | None = None,
    min_size: int = 1,
    standardise_label: bool = False,
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
        seed: of the choice of held-out rows, and of clients.
        num_clients: draw so many of the clients; all if not given.
        min_size: leave out clients of fewer rows.
        standardise_label: bring the label to mean 0 and deviation 1 over the training rows, for "squared"; a constant
            then has a loss of ½.

    """
    return table_task(
        read_table(path, client, label, tuple(features), part, loss),
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
