"""Figures of a run, drawn offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from turnout.metrics import WORST_DECILE, Metric, metric_named
from turnout.report.page.colours import line_styles
from turnout.report.run.compared import Points, common_metrics, shown_metrics, title_of
from turnout.report.run.curves import learning_curves_of
from turnout.report.run.groups import attention

PIXELS = 2  # device pixels a point, for sharp print
PANEL = 380  # width of one chart


def write_figures(run: Points, folder: Path) -> None:
    """Every figure of a run as PNG."""
    for name, chart in figures(run).items():
        chart.save(folder / f"{name}.png", scale_factor=PIXELS)


def figures(run: Points) -> dict[str, alt.TopLevelMixin]:
    """Every figure of a run by name."""
    return {"learning": learning_curves(run), "attention": trained_for(run)}


def learning_curves(run: Points, metric: str | None = None) -> alt.TopLevelMixin:
    """Metrics over the rounds, one line a strategy, in a band of one standard deviation over the seeds.

    All that are worth a panel, or the one that is named.
    """
    panels = [_curve(run, one) for one in _drawn(run, metric)]
    seeds = len(run.points[0].history.seeds)
    band = f"Line: mean over {seeds} seeds. Band: one standard deviation." if seeds > 1 else "One seed."
    return _framed(alt.hconcat(*panels, spacing=30), run, "How well the model does, round by round", band)


def _drawn(run: Points, metric: str | None) -> list[Metric]:
    if metric is None:
        return [one for one in shown_metrics(run) if one.name != WORST_DECILE]
    if metric not in (known := common_metrics(run)):
        raise ValueError(f"there is no metric {metric!r}: known: {', '.join(sorted(known))}")
    return [metric_named(metric)]


def _curve(run: Points, metric: Metric) -> Any:
    rows = pl.concat(
        pl.DataFrame(
            {
                "label": curve.label,
                "round": curve.over["round"],
                "mean": curve.mean,
                "low": curve.low,
                "high": curve.high,
            }
        )
        for curve in learning_curves_of(run, metric)
    ).filter(pl.col("mean").is_finite())
    log = metric.log and (rows["mean"] > 0).all()
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    colour, dash = legend(*_labelled(run), "stroke", 2 * PANEL)
    x = alt.X("round:Q", title="Round", scale=alt.Scale(nice=False), axis=alt.Axis(labelFlush=False))
    y = alt.Y("mean:Q", title=metric.axis_title, scale=scale)
    base = alt.Chart(rows)
    band = base.mark_area(opacity=0.18).encode(x, alt.Y("low:Q", scale=scale), alt.Y2("high:Q"), colour)
    line = base.mark_line(strokeWidth=2).encode(x, y, colour, dash)
    return alt.layer(band, line).properties(width=PANEL, height=280)


def trained_for(run: Points) -> alt.TopLevelMixin:
    """Share of the weight given to each availability group, beside the share it should have."""
    rows = attention(run)
    order = rows.unique("group", maintain_order=True).sort("place")["group"].to_list()
    labels = [outcome.label for outcome in run.points]
    x = alt.X("group:N", sort=order, title="Clients, from the least available to the most", axis=_two_lines())
    width = max(PANEL, max(120, 22 * len(labels) + 30) * len(order))
    colour, _ = legend(*_labelled(run), "square", width)
    base = alt.Chart(rows)
    offset = alt.XOffset("label:N", sort=labels)
    bars = base.mark_bar(stroke="white").encode(x, alt.Y("share:Q", title="Share of all weight (%)"), offset, colour)
    whiskers = base.mark_rule(color="#444444").encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), offset)
    target = base.mark_tick(color="black", thickness=3, width=alt.RelativeBandSize(0.95)).encode(x, alt.Y("target:Q"))
    chart = alt.layer(bars, whiskers, target).properties(width=width, height=280)
    note = "Black line: the share that the target asks for. Whisker: least and most over the seeds."
    return _framed(chart, run, "Who the model is trained for", note)


def _two_lines() -> alt.Axis:
    """Group names broken at the comma, upright."""
    return alt.Axis(labelAngle=0, labelExpr="split(datum.label, ', ')", labelLimit=200, grid=False)


def _labelled(run: Points) -> tuple[list[str], list[str]]:
    """The labels of a run and the strategies behind them."""
    return [outcome.label for outcome in run.points], [outcome.strategy for outcome in run.points]


def labelled_legend(run: Points, symbol: str, width: int = PANEL) -> tuple[alt.Color, alt.StrokeDash]:
    """The legend of a run's strategies."""
    return legend(*_labelled(run), symbol, width)


def legend(labels: list[str], strategies: list[str], symbol: str, width: int) -> tuple[alt.Color, alt.StrokeDash]:
    """One entry a label, coloured by its strategy, in as many columns as the width has room for."""
    colours, dashes = zip(*line_styles(strategies), strict=True)
    entries = alt.Legend(
        title=None,
        labelLimit=600,
        symbolType=symbol,
        symbolStrokeWidth=3 if symbol == "stroke" else 0,
        symbolSize=900 if symbol == "stroke" else 200,
        symbolOpacity=1,
        columns=max(1, width // (8 * max(map(len, labels)) + 50)),
    )
    return (
        alt.Color("label:N", sort=labels, scale=alt.Scale(domain=labels, range=list(colours)), legend=entries),
        alt.StrokeDash("label:N", sort=labels, scale=alt.Scale(domain=labels, range=list(dashes)), legend=entries),
    )


def _framed(chart: Any, run: Points, title: str, note: str) -> alt.TopLevelMixin:
    return framed(chart, title, [title_of(run), note])


def framed(chart: Any, title: str, lines: list[str]) -> alt.TopLevelMixin:
    """Title and lines above, legible letters throughout."""
    lines = [line for line in lines if line]
    heading = alt.TitleParams(title, subtitle=lines, anchor="start", fontSize=18, subtitleFontSize=13, offset=14)
    return (
        chart.properties(title=heading, padding=16)
        .configure_axis(labelFontSize=13, titleFontSize=14, titleFontWeight="normal", grid=True, gridColor="#e8e8e8")
        .configure_legend(labelFontSize=13, orient="bottom")
        .configure_view(stroke=None)
    )
