"""Charts for papers and notebooks: the same descriptions as on a page, drawn by Altair."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

from turnout.statistics import evenly
from turnout.workbench.report.page.chart import Axis, Cells, Chart, Drawing, Kind, Picture

PIXELS = 2  # device pixels per point, for sharp print
PANEL = 380  # width of one chart
IN_A_ROW = 3  # charts side by side
LETTER = 6  # mean width of a letter above the charts
BAR, GROUP = 24, 120  # width of a bar; least width of the bars of one name
ROW = 30  # height of the row of a range
LARGEST_DISC = 500
INK = "#444444"
SYMBOLS = {"dots": "circle", "bars": "square"}  # in legends; of other kinds a piece of the line
SHOWN_CLIENTS, SHOWN_ROUNDS = 128, 256  # of a picture; more would be thinner than a line in print


def figure(
    drawings: Sequence[Drawing],
    title: str,
    lines: Sequence[str],
    names: Sequence[str] = (),
    columns: int = IN_A_ROW,
    width: int = PANEL,
    legend: bool = True,
    spacing: int = 30,
) -> alt.TopLevelMixin:
    """Charts side by side, each below its name if there are names, under one title and some lines of text."""
    charts = [drawing for drawing in drawings if isinstance(drawing, Chart)]
    widths = [_width(drawing, width) if isinstance(drawing, Chart) else drawing.width or width for drawing in drawings]
    in_a_row = min(len(drawings), columns) * max(widths)
    keys = _keys(charts, in_a_row, legend) if charts else ()
    panels = [_panel(drawing, width, keys) if isinstance(drawing, Chart) else _cells(drawing) for drawing in drawings]
    wrapped = [part for line in lines for part in textwrap.wrap(line, in_a_row // LETTER, break_on_hyphens=False)]
    if len(panels) == 1:
        return add_heading(panels[0], title, wrapped)
    named = [panel.properties(title=name) for panel, name in zip(panels, names, strict=True)] if names else panels
    return add_heading(alt.concat(*named, columns=columns, spacing=spacing), title, wrapped)


def add_heading(chart: Any, title: str, lines: Sequence[str]) -> alt.TopLevelMixin:
    """The chart below a title and some lines, with large letters."""
    heading = alt.TitleParams(title, subtitle=list(lines), anchor="start", fontSize=18, subtitleFontSize=13, offset=14)
    return (
        chart.properties(title=heading, padding=16)
        .configure_axis(labelFontSize=13, titleFontSize=14, titleFontWeight="normal", grid=True, gridColor="#e8e8e8")
        .configure_legend(labelFontSize=13, orient="bottom")
        .configure_view(stroke=None)
    )


def caption(drawing: Drawing) -> str:
    """The note of a chart; for a picture, also which part of it is drawn."""
    if isinstance(drawing, Chart):
        return drawing.note
    first = drawing.series[0]
    rows, columns = _shown(first)
    return drawing.caption(len(rows), first.rounds[columns])


def _keys(charts: Sequence[Chart], width: int, legend: bool) -> tuple[alt.Color, alt.StrokeDash]:
    """One entry per label of all charts, in as many columns as fit the width."""
    styles = {series.label: series.style for chart in charts for series in chart.series}
    labels, symbol = list(styles), SYMBOLS.get(charts[0].kind, "stroke")
    entries = alt.Legend(
        title=None,
        labelLimit=600,
        symbolType=symbol,
        symbolStrokeWidth=3 if symbol == "stroke" else 0,
        symbolSize=900 if symbol == "stroke" else 200,
        symbolOpacity=1,
        columns=max(1, width // (8 * max(map(len, labels)) + 50)),
    )
    shades = alt.Scale(domain=labels, range=[style.light for style in styles.values()])
    dashes = alt.Scale(domain=labels, range=[list(style.dash) for style in styles.values()])
    shown = entries if legend and charts[0].kind != "ranges" else None  # whose rows have their names beside them
    return (
        alt.Color("label:N", sort=labels, scale=shades, legend=shown),
        alt.StrokeDash("label:N", sort=labels, scale=dashes, legend=shown),
    )


def _width(chart: Chart, width: int) -> int:
    """The width of a chart: its own if it has one, else the given width, or more if its bars need it."""
    return chart.width or max(width, len(chart.x.names) * max(GROUP, BAR * len(chart.series) + 30))


def _panel(chart: Chart, width: int, keys: Sequence[Any]) -> Any:
    at = At(alt.Chart(_rows(chart)), _x(chart), _y(chart, "y"), _y(chart, "low"), alt.Y2("high:Q"), *keys)
    layers = MARKS[chart.kind](chart, at)
    for rule in chart.rules:
        mark = alt.Chart(pl.DataFrame({"y": [rule.y]})).mark_rule(strokeDash=[5, 4])
        layers.append(mark.encode(_y(chart, "y"), color=alt.value(rule.style.light if rule.style else "black")))
    if chart.x.clipped or chart.y.clipped:
        for layer in layers:
            layer.mark.clip = True
    height = alt.Step(ROW) if chart.kind == "ranges" else chart.height
    return alt.layer(*(layer.properties(width=_width(chart, width), height=height) for layer in layers))


class At(NamedTuple):
    """The data and encodings from which the marks of a chart are drawn."""

    base: alt.Chart
    x: alt.X
    y: alt.Y
    low: alt.Y
    high: alt.Y2
    colour: alt.Color
    dash: alt.StrokeDash


def _rows(chart: Chart) -> pl.DataFrame:
    """One row per point."""
    parts = []
    for series in chart.series:
        else_x = np.arange(len(series.y)) if chart.x.names else np.full(len(series.y), np.nan)
        x = next(iter(series.over.values()), else_x) if series.x is None else series.x
        values = {"x": _named(chart.x, x), "y": _named(chart.y, series.y)}
        values |= {"low": series.y if series.low is None else series.low}
        values |= {"high": series.y if series.high is None else series.high}
        values |= {"name": series.names} if series.names else {}
        values |= {} if series.sizes is None else {"size": series.sizes}
        values |= {more.title: more.values for more in series.more}
        parts.append(pl.DataFrame({"label": [series.label] * len(series.y)} | values))
    rows = pl.concat(parts, how="diagonal_relaxed").fill_nan(None)
    return rows if chart.kind in ("ranges", "discs") else rows.filter(pl.col("y").is_finite())


def _named(axis: Axis, values: np.ndarray) -> np.ndarray:
    return np.asarray(axis.names)[values] if axis.names else values


def _x(chart: Chart) -> alt.X:
    if chart.x.names:
        whole = {"labelAngle": 0, "labelLimit": 200, "labelOverlap": True, "labelSeparation": 8}
        axis = alt.Axis(labelExpr="split(datum.label, ', ')", grid=False, **whole) if chart.x.title else None
        return alt.X("x:N", sort=list(chart.x.names), title=chart.x.heading or None, axis=axis)
    scale = _scale(chart.x, nice=chart.kind != "lines")
    return alt.X("x:Q", title=chart.x.heading or None, scale=scale, axis=_axis(chart.x))


def _y(chart: Chart, field: str) -> alt.Y:
    title = chart.y.heading or None
    if chart.y.names:
        return alt.Y(f"{field}:N", sort=list(reversed(chart.y.names)), title=title)
    scale = alt.Scale() if chart.kind == "bars" and not chart.y.clipped else _scale(chart.y)
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=_axis(chart.y))


def _scale(axis: Axis, nice: bool = True) -> alt.Scale:
    if axis.log:
        if axis.domain is None:
            return alt.Scale(type="log", nice=False, padding=6)
        return alt.Scale(type="log", nice=False, domain=list(axis.domain))
    if axis.domain is not None:
        ends = list(axis.domain)
        return alt.Scale(domain=ends, nice=False) if axis.clipped else alt.Scale(domain=ends, clamp=True)
    return alt.Scale(zero=axis.zero) if nice else alt.Scale(nice=False)


def _axis(axis: Axis) -> alt.Axis:
    """On a logarithmic axis only the powers of ten have numbers, on one that counts only whole numbers."""
    if axis.log:
        return alt.Axis(labelFlush=False, tickCount=5, format="~g")
    return alt.Axis(labelFlush=False, tickMinStep=1) if axis.whole else alt.Axis(labelFlush=False)


def _lines(chart: Chart, at: At) -> list[alt.Chart]:
    band = at.base.mark_area(opacity=0.15).encode(at.x, at.low, at.high, at.colour)
    return [band, at.base.mark_line(strokeWidth=2).encode(at.x, at.y, at.colour, at.dash)]


def _dots(chart: Chart, at: At) -> list[alt.Chart]:
    first = chart.series[0]
    numbers = (alt.Tooltip(title, format=".3g") for title in (*(more.title for more in first.more), "y"))
    tips = ["label", *(["name"] if first.names else []), *numbers]
    whiskers = at.base.mark_rule(opacity=0.35).encode(at.x, at.low, at.high, at.colour)
    return [whiskers, at.base.mark_circle(size=24, opacity=0.7).encode(at.x, at.y, at.colour, tooltip=tips)]


def _bars(chart: Chart, at: At) -> list[alt.Chart]:
    offset = alt.XOffset("label:N", sort=[series.label for series in chart.series])
    bars = at.base.mark_bar(stroke="white").encode(at.x, at.y, offset, at.colour)
    whiskers = at.base.mark_rule(color=INK).encode(at.x, at.low, at.high, offset)
    if chart.targets is None:
        return [bars, whiskers]
    wanted = alt.Chart(pl.DataFrame({"x": chart.x.names, "y": chart.targets}))
    across = wanted.mark_tick(color="black", opacity=1, thickness=3, width=alt.RelativeBandSize(0.95))
    return [bars, whiskers, across.encode(at.x, at.y)]


def _sweep(chart: Chart, at: At) -> list[alt.Chart]:
    swept, across = (at.base.transform_filter(f"{sign}isValid(datum.x)") for sign in ("", "!"))
    return [
        swept.mark_rule().encode(at.x, at.low, at.high, at.colour),
        swept.mark_line(strokeWidth=2).encode(at.x, at.y, at.colour, at.dash),
        swept.mark_circle(size=60, opacity=1).encode(at.x, at.y, at.colour),
        across.mark_rule(strokeWidth=2).encode(at.y, at.colour, at.dash),
    ]


def _ranges(chart: Chart, at: At) -> list[alt.Chart]:
    labels = [series.label for series in chart.series]
    row = alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=300, domain=False, ticks=False))
    scale, axis = alt.Scale(zero=False, padding=14), alt.Axis(tickCount=5)
    x, low = (alt.X(f"{field}:Q", title=chart.y.heading, scale=scale, axis=axis) for field in ("y", "low"))
    number, instead = (at.base.transform_filter(f"{sign}isValid(datum.y)") for sign in ("", "!"))
    return [
        at.base.mark_rule(strokeWidth=2).encode(low, alt.X2("high:Q"), row, at.colour),
        at.base.mark_circle(size=110, opacity=1).encode(x, row, at.colour),
        number.mark_text(dy=-11, fontSize=12, color=INK).encode(x, row, text="name:N"),
        instead.mark_text(align="left", fontSize=12, color=INK).encode(x=alt.value(6), y=row, text="name:N"),
    ]


def _discs(chart: Chart, at: At) -> list[alt.Chart]:
    (series,) = chart.series
    size = alt.Size("size:Q", title=series.label.capitalize(), scale=alt.Scale(range=[0, LARGEST_DISC]))
    discs = at.base.mark_circle(color=series.style.light, opacity=0.6)
    return [discs.encode(at.x, at.y, size, tooltip=["x", "y", "size"])]


MARKS: dict[Kind, Callable[[Chart, At], list[alt.Chart]]] = {
    "lines": _lines,
    "dots": _dots,
    "bars": _bars,
    "sweep": _sweep,
    "ranges": _ranges,
    "discs": _discs,
}


def _shown(cells: Cells) -> tuple[np.ndarray, slice]:
    """Rows and columns of a picture that are drawn; columns are evenly spaced, as they are times."""
    return evenly(len(cells.clients), SHOWN_CLIENTS), slice(None, None, -(-len(cells.rounds) // SHOWN_ROUNDS))


def _cells(picture: Picture) -> Any:
    """Spells of one state as bars, given as CSV text, since Altair refuses tables with so many rows."""
    (cells,) = picture.series
    rows, columns = _shown(cells)
    states, rounds = cells.cells[rows][:, columns], cells.rounds[columns].tolist()
    ends = [*rounds, rounds[-1] + (rounds[1] - rounds[0] if len(rounds) > 1 else 1)]
    text = alt.InlineData(_spells(states, ends, list(picture.states)), format=alt.DataFormat(type="csv"))
    scale, below = (alt.Scale(domain=domain, nice=False) for domain in ([ends[0], ends[-1]], [len(rows), 0]))
    x = alt.X("from:Q", title=picture.x.heading, scale=scale, axis=alt.Axis(grid=False, tickMinStep=1))
    y = alt.Y("row:Q", title=picture.y.heading, scale=below, axis=alt.Axis(labels=False, grid=False, tickMinStep=1))
    shades = alt.Scale(domain=list(picture.states), range=[style.light for style in picture.states.values()])
    colour = alt.Color("state:N", scale=shades, legend=alt.Legend(title=None, symbolType="square"))
    spells = alt.Chart(text).mark_rect().transform_calculate(below="toNumber(datum.row) + 1")
    placed = spells.encode(x, alt.X2("to:Q"), y, alt.Y2("below:Q"), colour)
    height = min(300, max(120, 3 * len(rows))) if picture.width is None else picture.height
    return placed.properties(width=picture.width or PANEL, height=height)


def _spells(states: np.ndarray, ends: Sequence[int], names: Sequence[str]) -> str:
    """One line of CSV per spell of one state; absences are not drawn."""
    lines = ["row,from,to,state"]
    for row, line in enumerate(states):
        edges = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1, [len(line)]])
        for start, end in itertools.pairwise(edges.tolist()):
            if line[start]:
                lines.append(f"{row},{ends[start]},{ends[end]},{names[line[start]]}")
    return "\n".join(lines)
