"""The picture of a partition: which classes each client holds."""

from __future__ import annotations

from typing import Literal

import altair as alt
import numpy as np

from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import label_counts
from turnout.workbench.report.page.chart import Axis, Chart, Series
from turnout.workbench.report.page.colours import BLUE, Style
from turnout.workbench.report.page.on_paper import figure

WIDTH, HEIGHT, LOW = 900, 260, 80
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
    part_shown = "" if shown == task.num_clients else f"The first {shown} of {task.num_clients:,} clients."
    words = {"train": "trains on", "validation": "validates on", "test": "is tested on"}
    names = None if task.names is None else task.names[:shown]
    charts = label_counts_charts(counts[:shown], names)
    return figure(charts, f"What each client {words[split]}", [title, part_shown], columns=1, legend=False, spacing=8)


def label_counts_charts(counts: np.ndarray, names: tuple[str, ...] | None = None) -> list[Chart]:
    """The discs, and the sums below them, from the number of samples by client and class."""
    numbers, classes = (tuple(map(str, range(count))) for count in counts.shape)
    clients = numbers if names is None else names
    held_by, of_class = np.nonzero(counts)
    discs = Series("samples", Style.of(BLUE), of_class, held_by, sizes=counts[held_by, of_class])
    sums = Series("samples", Style.of(BLUE), counts.sum(axis=1))
    x, above = Axis("Client", names=clients), Axis("", names=clients)
    return [
        Chart("discs", "Classes", above, Axis("Class", names=classes), (discs,), width=WIDTH, height=HEIGHT),
        Chart("bars", "Samples", x, Axis("Samples", whole=True), (sums,), width=WIDTH, height=LOW),
    ]
