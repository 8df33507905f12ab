"""The picture of a partition: which classes each client holds."""

from __future__ import annotations

from typing import Literal

import altair as alt
import numpy as np
import polars as pl

from turnout.report.page.colours import BLUE
from turnout.report.run.figures import framed
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import label_counts

WIDTH, HEIGHT = 900, 260
LARGEST = 500  # area of a disc
SHOWN_CLIENTS = 100  # more would not be told apart


def label_counts_figure(
    task: DataTask, split: Literal["train", "validation", "test"] = "train", title: str = ""
) -> alt.TopLevelMixin:
    """A disc for every client and class, its area by the number of samples; below it, how many each client has.

    Of more than 100 clients the first 100 are shown.
    """
    part = getattr(task, split)
    if part is None:
        raise ValueError(f"the task has no {split} samples to count")
    if not np.issubdtype(part.labels.dtype, np.integer):
        raise ValueError("the labels of the task are numbers, not classes: there is nothing to count")
    counts = label_counts(np.asarray(part.labels), np.asarray(part.owners), task.num_clients)
    shown = min(task.num_clients, SHOWN_CLIENTS)
    rows = _rows(counts[:shown])
    x = alt.X("client:O", title=None, axis=None)
    discs = (
        alt.Chart(rows.filter(pl.col("samples") > 0))
        .mark_circle(color=BLUE, opacity=0.6)
        .encode(
            x,
            alt.Y("class:O", title="Class", sort="descending"),
            alt.Size("samples:Q", title="Samples", scale=alt.Scale(range=[0, LARGEST])),
            tooltip=["client", "class", "samples"],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    step = -(-shown // 20)
    axis = alt.Axis(values=list(range(0, shown, step)), labelAngle=0)
    totals = (
        alt.Chart(rows.group_by("client", maintain_order=True).agg(pl.col("samples").sum()))
        .mark_bar(color=BLUE, opacity=0.8)
        .encode(alt.X("client:O", title="Client", axis=axis), alt.Y("samples:Q", title="Samples"))
        .properties(width=WIDTH, height=80)
    )
    some = "" if shown == task.num_clients else f"The first {shown} of {task.num_clients:,} clients."
    words = {"train": "trains on", "validation": "validates on", "test": "is tested on"}
    return framed(alt.vconcat(discs, totals, spacing=8), f"What each client {words[split]}", [title, some])


def _rows(counts: np.ndarray) -> pl.DataFrame:
    clients, classes = np.indices(counts.shape)
    return pl.DataFrame({"client": clients.ravel(), "class": classes.ravel(), "samples": counts.ravel()})
