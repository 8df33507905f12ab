"""Figures by name: what `turnout.plots(history)` has as methods and `turnout plot` as kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import altair as alt

from turnout.errors import nearest
from turnout.experiment.errors import ExperimentError, mistakes_at
from turnout.files.whole import whole_file
from turnout.report.run.client_figures import availability_picture, client_weights, served_clients, staleness
from turnout.report.run.compared import Points, of_history
from turnout.report.run.figures import learning_curves, trained_for
from turnout.simulator.history import History

Format = Literal["png", "svg", "pdf"]
SERIF = "Times New Roman, Liberation Serif, Times, serif"
PAPER_PIXELS = 4  # a point, so that a figure of one column has about 600 dots an inch

KINDS: dict[str, Callable[[Points], alt.TopLevelMixin]] = {
    "curves": learning_curves,
    "availability": availability_picture,
    "weights": client_weights,
    "groups": trained_for,
    "clients": served_clients,
    "staleness": staleness,
}


class HistoryPlots:
    """Figures of one history, as Altair charts."""

    def __init__(self, history: History, label: str = "") -> None:
        self._points = of_history(history, label or "this strategy")

    def curves(self, metric: str | None = None) -> alt.TopLevelMixin:
        """Metrics over the rounds, or the one that is named, with their spread over the seeds."""
        return learning_curves(self._points, metric)

    def availability(self) -> alt.TopLevelMixin:
        """Who was there, asked and heard, round by round."""
        return availability_picture(self._points)

    def weights(self) -> alt.TopLevelMixin:
        """Weight over target of each client."""
        return client_weights(self._points)

    def groups(self) -> alt.TopLevelMixin:
        """Share of the weight by availability, beside the target."""
        return trained_for(self._points)

    def clients(self) -> alt.TopLevelMixin:
        """Test accuracy from the worst served client to the best."""
        return served_clients(self._points)

    def staleness(self) -> alt.TopLevelMixin:
        """Longest wait for an upload of each client."""
        return staleness(self._points)


def plots(history: History, label: str = "") -> HistoryPlots:
    """Figures of a history as Altair charts, such as `plots(history).curves()` and `.availability()`."""
    return HistoryPlots(history, label)


def plot(points: Points, kind: str, metric: str | None = None) -> alt.TopLevelMixin:
    """A figure of a run by its kind; curves may be those of one metric."""
    if kind not in KINDS:
        raise ExperimentError(f"there is no figure {kind!r}: {nearest(kind, KINDS)}")
    if metric is not None and kind != "curves":
        raise ExperimentError(f"{kind}: only curves have a metric to choose, not {metric!r}")
    with mistakes_at(kind):
        return learning_curves(points, metric) if kind == "curves" else KINDS[kind](points)


def for_paper(chart: Any) -> alt.TopLevelMixin:
    """The figure without its title, which a paper has below it, on white and in its serif letters."""
    bare = chart.properties(title=alt.TitleParams(""), background="white", padding=2)
    bare.config = bare.config.copy(deep=True)
    bare.config.font = SERIF
    return bare


def save_plot(chart: Any, out: Path, form: str | None = None) -> Path:
    """Write a figure as PNG, SVG or PDF, by the file's ending if not said; nothing half-written is left."""
    form_of = form or out.suffix.removeprefix(".")
    if form_of not in get_args(Format):
        raise ExperimentError(f"{out}: give --format, or a file that ends in {', '.join(get_args(Format))}")
    with whole_file(out) as draft:
        chart.save(draft, format=form_of, scale_factor=PAPER_PIXELS if form_of == "png" else 1)
    return out
