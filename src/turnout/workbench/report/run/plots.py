"""Figures by name, as `turnout.plots(history)` and `turnout plot` have them; and that of a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import altair as alt
import numpy as np

from turnout.declarations import checked
from turnout.errors import nearest
from turnout.files.whole import whole_file
from turnout.metrics import WORST_DECILE, Metric, metric_named
from turnout.simulator.history import History
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import label_counts
from turnout.workbench.experiment.errors import ExperimentError, mistakes_at
from turnout.workbench.report.page.chart import Axis, Chart, Drawing, Look, Picture, Series, one_each, why_silent
from turnout.workbench.report.page.colours import BLUE, Style
from turnout.workbench.report.page.on_paper import caption, figure
from turnout.workbench.report.run.compared import (
    Points,
    arrange,
    common_metrics,
    of_history,
    relabel_points,
    shown_metrics,
    title_of,
)
from turnout.workbench.report.run.curves import learning_curves
from turnout.workbench.report.run.in_time import any_timed, unit
from turnout.workbench.report.run.run_charts import CHARTS, CURVE

Format = Literal["png", "svg", "pdf"]
SERIF = "Times New Roman, Liberation Serif, Times, serif"
PAPER_PIXELS = 4  # per point, so that a figure of one column has about 600 dots per inch

CURVES = "curves"
FIGURE_KINDS = (CURVES, *CHARTS)
OF_TIME = ("at_work", "ages")  # figures of runs in which work takes time
ALL = "all"  # of the kinds, each in a file of its own
PLAIN = Look()
WIDTH, HEIGHT, LOW = 900, 260, 80
SHOWN_CLIENTS = 100  # more would not be told apart


class HistoryPlots:
    """Figures of one history, as Altair charts."""

    def __init__(self, history: History, label: str = "") -> None:
        self._points = of_history(history, label or "this strategy")

    def curves(self, metric: str | None = None) -> alt.TopLevelMixin:
        """Metrics over the rounds, or the one that is named, with their spread over the seeds."""
        return _draw(self._points, CURVES, metric)

    def at_work(self) -> alt.TopLevelMixin:
        """How many clients are at work, where work takes time."""
        return _draw(self._points, "at_work")

    def ages(self) -> alt.TopLevelMixin:
        """How old updates are when they count, where work takes time."""
        return _draw(self._points, "ages")

    def availability(self) -> alt.TopLevelMixin:
        """Who was there, asked and heard, round by round."""
        return _draw(self._points, "availability")

    def weights(self) -> alt.TopLevelMixin:
        """Weight over target of each client."""
        return _draw(self._points, "weights")

    def groups(self) -> alt.TopLevelMixin:
        """Share of the weight by availability, beside the target."""
        return _draw(self._points, "groups")

    def clients(self) -> alt.TopLevelMixin:
        """Test accuracy from the worst served client to the best."""
        return _draw(self._points, "clients")

    def staleness(self) -> alt.TopLevelMixin:
        """Longest wait for an upload of each client."""
        return _draw(self._points, "staleness")


@checked
def plots(history: History, label: str = "") -> HistoryPlots:
    """Figures of a history as Altair charts, such as `plots(history).curves()` and `.availability()`."""
    return HistoryPlots(history, label)


@checked
def plot(points: Points, kind: str, metric: str | None = None, look: Look = PLAIN) -> alt.TopLevelMixin:
    """A figure of a run by its kind; curves may be those of one metric."""
    if kind not in FIGURE_KINDS:
        raise ExperimentError(f"there is no figure {kind!r}: {nearest(kind, FIGURE_KINDS)}")
    if metric is not None and kind != CURVES:
        raise ExperimentError(f"{kind}: only curves have a metric to choose, not {metric!r}")
    shown = arrange(relabel_points(points), look.labels, look.order)
    with mistakes_at(kind):
        return _draw(shown, kind, metric, look)


def figure_set(points: Points, look: Look = PLAIN) -> tuple[dict[str, alt.TopLevelMixin], list[str]]:
    """The figures that a paper usually has, by name, and why others are left out."""
    if look.x_range or look.y_range or look.log:
        raise ExperimentError("ranges and logarithms belong to one figure: give its kind rather than all")
    shown = arrange(relabel_points(points), look.labels, look.order)
    figures, reasons = {}, []
    curves = {f"{CURVE}{metric.name}": learning_curves(shown, metric) for metric in shown_metrics(shown)}
    for name, drawing in (curves | {kind: describe(shown) for kind, (describe, _) in CHARTS.items()}).items():
        if drawing is None and name in OF_TIME and not any_timed(shown):
            continue
        if drawing is None:
            reasons.append(f"{name}: this run does not tell {CHARTS[name][1]}.")
        elif reason := why_silent(drawing):
            reasons.append(reason)
        else:
            by_round = name in curves or isinstance(drawing, Picture)
            own = replace(look, from_round=look.from_round * by_round, over=look.over if name in curves else "")
            with mistakes_at(name):
                figures[name] = draw_alone(shown, own.of(drawing))
    return figures, reasons


def _draw(points: Points, kind: str, metric: str | None = None, look: Look = PLAIN) -> alt.TopLevelMixin:
    if kind == CURVES:
        if metric is not None and metric not in (shared := common_metrics(points)):
            raise ValueError(f"there is no metric {metric!r}: known: {', '.join(sorted(shared))}")
        metrics = _panels(points) if metric is None else [metric_named(metric)]
        return _draw_beside(points, [look.of(learning_curves(points, one)) for one in metrics])
    describe, lacking = CHARTS[kind]
    chart = describe(points)
    if chart is None:
        raise ValueError(f"this run does not tell {lacking}")
    return draw_alone(points, look.of(chart))


def _panels(points: Points) -> list[Metric]:
    """The metrics that have a panel where none is named: the worst tenth only if there is nothing else."""
    shown = shown_metrics(points)
    return [metric for metric in shown if metric.name != WORST_DECILE] or shown


def draw_curves(points: Points, curves: Mapping[str, Chart]) -> alt.TopLevelMixin:
    """The learning curves of the most telling metrics, from the charts of `curve_charts`."""
    return _draw_beside(points, [curves[f"{CURVE}{metric.name}"] for metric in _panels(points)])


def _draw_beside(points: Points, charts: Sequence[Drawing]) -> alt.TopLevelMixin:
    each = unit(points)
    return figure(charts, f"How well the model does, {each} by {each}", [title_of(points), charts[0].note])


def draw_alone(points: Points, chart: Drawing) -> alt.TopLevelMixin:
    """A figure of one chart, or of one picture per strategy."""
    lines = [title_of(points), caption(chart)]
    if isinstance(chart, Picture):
        return figure(one_each(chart), chart.title, lines, [cells.label for cells in chart.series], columns=2)
    return figure([chart], chart.title, lines)


def for_paper(chart: Any) -> alt.TopLevelMixin:
    """The figure without its title, which a paper has below it, on white and in its serif letters."""
    bare = chart.properties(title=alt.TitleParams(""), background="white", padding=2)
    bare.config = bare.config.copy(deep=True)
    bare.config.font = SERIF
    return bare


@checked
def save_plot(chart: alt.TopLevelMixin, out: str | Path, form: str | None = None) -> Path:
    """Write a figure as PNG, SVG or PDF, by the file's ending if not said; nothing half-written is left."""
    file: Path = Path(out)
    form_of = form or file.suffix.removeprefix(".")
    if form_of not in get_args(Format):
        raise ExperimentError(f"{file}: give --format, or a file that ends in {', '.join(get_args(Format))}")
    with whole_file(file) as draft:
        chart.save(draft, format=cast(Format, form_of), scale_factor=PAPER_PIXELS if form_of == "png" else 1)
    return file


@checked
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
