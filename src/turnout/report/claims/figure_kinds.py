"""The kinds of figures that a claim may have, each drawn from its curves alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from turnout.experiment.registry import entries
from turnout.metrics import Metric, metric_named, record_named
from turnout.report.page.colours import colour as colour_of
from turnout.report.page.colours import strategy_called
from turnout.report.run.figures import PANEL, legend
from turnout.report.run.groups import groups_of
from turnout.reproduction.measured import Curve, Measured
from turnout.reproduction.measures import measure_values, measure_words

HEIGHT = 280
ALONE = 560  # width of a panel that has no other beside it
IN_A_ROW = 3  # panels side by side
ROW = 30  # height of a label's row
BAR = 24  # width of a label's bar
INK = "#444444"
MOST_ROWS = 4000  # of a panel: Altair refuses more than 5000
SHARES = ("weight_share", "asked_share")
ON_THE_WAY = {"best": "best", "time_average": "mean over the rounds", "late_deviation": "late deviation"}

Measure = dict[str, Any]  # its name and its arguments, as in a claim


def curves(
    curves: Sequence[Curve],
    metric: str,
    log_y: bool = False,
    log_x: bool = False,
    x_title: str = "Round",
    title: str = "",
    points: bool = False,
) -> alt.TopLevelMixin:
    """A metric over the rounds: a line a label in a band of one standard deviation over the seeds, a column a panel.

    Of rounds, that of the untrained model is left out: it would take up most of the axis. `points` are for an x whose
    neighbours have nothing to do with each other.
    """
    shown = _of_metric(curves, metric)
    about = metric_named(metric)
    most = MOST_ROWS // len({curve.label for curve in shown})
    rows = pl.DataFrame([row for curve in shown for row in _along(curve, about, _places(len(curve.x), most, log_x))])
    if log_x or (x_title == "Round" and bool((rows["x"] > 0).any())):
        rows = rows.filter(pl.col("x") > 0)
    if log_y:
        rows = rows.filter(pl.col("mean") > 0).with_columns(pl.max_horizontal("low", pl.col("mean") / 10))
    panels = _unique(curve.panel for curve in shown)
    width = PANEL if len(panels) > 1 else ALONE
    colour, dash = _legend(shown, "stroke", width * min(len(panels), IN_A_ROW))
    x = alt.X("x:Q", title=x_title, scale=_scale(log_x, nice=False), axis=_axis(log_x))
    scale, axis = _scale(log_y, zero=False), _axis(log_y)
    y = alt.Y("mean:Q", title=title or about.axis_title, scale=scale, axis=axis)

    def draw(base: alt.Chart) -> Any:
        if points:
            return base.mark_circle(size=30, opacity=0.8).encode(x, y, colour).properties(width=width, height=HEIGHT)
        band = base.mark_area(opacity=0.15).encode(x, alt.Y("low:Q", scale=scale, axis=axis), alt.Y2("high:Q"), colour)
        line = base.mark_line(strokeWidth=2).encode(x, y, colour, dash)
        return alt.layer(band, line).properties(width=width, height=HEIGHT)

    return _side_by_side(rows, panels, draw)


def bars(curves: Sequence[Curve], measure: Measure, title: str = "") -> alt.TopLevelMixin:
    """A measure by label: the mean over the seeds, a whisker of one standard deviation, the number beside it."""
    rows = pl.DataFrame(list(_measured(curves, measure)), infer_schema_length=None)
    panels, labels = _unique(rows["panel"]), _unique(rows["label"])
    width = PANEL if len(panels) > 1 else ALONE
    known = entries("strategies")
    shades = [colour_of(strategy_called(label, known)) for label in labels]
    colour = alt.Color("label:N", scale=alt.Scale(domain=labels, range=shades), legend=None)  # the rows say it

    def draw(base: alt.Chart) -> Any:
        mine = base.properties(width=width, height=alt.Step(ROW))  # pyright: ignore[reportArgumentType]
        y = alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=300, domain=False, ticks=False))
        scale = alt.Scale(zero=False, padding=14)
        x = alt.X("mean:Q", title=title or measure_title(measure), scale=scale, axis=alt.Axis(tickCount=5))
        whiskers = mine.mark_rule(strokeWidth=2).encode(alt.X("low:Q", scale=scale), alt.X2("high:Q"), y, colour)
        dots = mine.mark_circle(size=110, opacity=1).encode(x, y, colour)
        number = mine.mark_text(dy=-11, fontSize=12, color=INK).encode(x, y, text="number:N")
        never = mine.mark_text(align="left", fontSize=12, color=INK).encode(x=alt.value(6), y=y, text="never:N")
        return alt.layer(whiskers, dots, number, never)

    return _side_by_side(rows, panels, draw)


def sweep(
    curves: Sequence[Curve],
    measure: Measure,
    over: str,
    title: str = "",
    x_title: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> alt.TopLevelMixin:
    """A measure over a swept number, a line a strategy, and straight across those that do not have it.

    A panel in which nobody has it goes straight across the others, under its name. The number is that of `over` in
    labels such as "CA-Fed kappa=0.1", or, where `over` is "panel", the first one in the panel's name.
    """
    placed = [_placed(row, over) for row in _measured(curves, measure) if row["mean"] is not None]
    rows = pl.DataFrame(list(_across_panels(placed)), schema_overrides={"x": pl.Float64})
    panels = _unique(rows["panel"])
    width = PANEL if len(panels) > 1 else ALONE
    colour, dash = _legend_of(_unique(rows["label"]), "stroke", width * min(len(panels), IN_A_ROW))
    x = alt.X("x:Q", title=x_title or over, scale=_scale(log_x, zero=False), axis=_axis(log_x))
    scale, axis = _scale(log_y, zero=False), _axis(log_y)
    y = alt.Y("mean:Q", title=title or measure_title(measure), scale=scale, axis=axis)

    def draw(base: alt.Chart) -> Any:
        swept = base.transform_filter("isValid(datum.x)")
        line = swept.mark_line(strokeWidth=2).encode(x, y, colour, dash)
        dots = swept.mark_circle(size=60, opacity=1).encode(x, y, colour)
        whiskers = swept.mark_rule().encode(x, alt.Y("low:Q", scale=scale, axis=axis), alt.Y2("high:Q"), colour)
        across = base.transform_filter("!isValid(datum.x)").mark_rule(strokeWidth=2).encode(y, colour, dash)
        return alt.layer(whiskers, line, dots, across).properties(width=width, height=HEIGHT)

    return _side_by_side(rows, panels, draw)


def groups(curves: Sequence[Curve]) -> alt.TopLevelMixin:
    """How much the clients of each class count, over how much they should; classes by π and λ.

    Taken from curves over the clients: "weight" and "pi", and "lam" and "target" where they are known. Without a target
    all clients should count alike.
    """
    rows = pl.DataFrame([row for curve in _of_metric(curves, "weight") for row in _by_class(curve, curves)])
    panels, labels = _unique(rows["panel"]), _unique(rows["label"])
    order = _unique(rows.sort("place")["group"])
    width = max(PANEL, len(order) * max(120, BAR * len(labels) + 30))
    colour, _ = _legend(_of_metric(curves, "weight"), "square", width)
    axis = alt.Axis(labelAngle=0, labelExpr="split(datum.label, ', ')", labelLimit=200, grid=False)
    x = alt.X("group:N", sort=order, title="Clients, from the least available to the most", axis=axis)
    offset = alt.XOffset("label:N", sort=labels)

    def draw(base: alt.Chart) -> Any:
        columns = base.mark_bar(stroke="white").encode(x, alt.Y("mean:Q", title="Weight over target"), offset, colour)
        whiskers = base.mark_rule(color=INK).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), offset)
        equal = base.mark_rule(strokeDash=[5, 4]).encode(y=alt.datum(1.0))
        return alt.layer(columns, whiskers, equal).properties(width=width, height=HEIGHT)

    return _side_by_side(rows, panels, draw)


FIGURES: dict[str, Callable[..., Any]] = {figure.__name__: figure for figure in (curves, bars, sweep, groups)}


def _by_class(weight: Curve, curves: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    """Weight of each class over its target, one row a class."""
    mine = {
        curve.metric: curve.values[0] for curve in curves if (curve.panel, curve.label) == (weight.panel, weight.label)
    }
    if "pi" not in mine:
        raise ValueError(f"{weight.label}: without a curve of 'pi' the classes of the clients are not known")
    target = mine.get("target", np.ones(len(weight.x)))
    target = target / target.sum()
    shares = weight.values / weight.values.sum(axis=1, keepdims=True)
    for place, group in enumerate(groups_of(mine["pi"], mine.get("lam"))):
        got = shares[:, group.members].sum(axis=1) / target[group.members].sum()
        yield {"panel": weight.panel, "label": weight.label, "group": group.name, "place": place} | _mean_and_band(got)


def _of_metric(curves: Sequence[Curve], metric: str) -> list[Curve]:
    found = [curve for curve in curves if curve.metric == metric]
    if not found:
        known = ", ".join(_unique(curve.metric for curve in curves))
        raise ValueError(f"there is no curve of {metric!r} to draw; there are {known}")
    return found


def _places(count: int, most: int, log: bool) -> np.ndarray:
    """Which places of a long curve are drawn: all, or so many from its beginning to its end."""
    if count <= most:
        return np.arange(count)
    spread = np.geomspace(1, count, most) - 1 if log else np.linspace(0, count - 1, most)
    return np.unique(spread.round().astype(np.int64))


def _along(curve: Curve, metric: Metric, places: np.ndarray) -> Iterator[dict[str, Any]]:
    """One row a place on the curve, where all seeds are finite."""
    values = np.asarray(curve.values, np.float64)[:, places] * metric.factor
    for x, here in zip(curve.x[places], values.T, strict=True):
        if np.isfinite(here).all():
            yield {"panel": curve.panel, "label": curve.label, "x": float(x)} | _mean_and_band(here)


def _mean_and_band(values: np.ndarray) -> dict[str, float]:
    mean, spread = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else 0.0
    return {"mean": mean, "low": mean - spread, "high": mean + spread}


def measure_title(measure: Measure) -> str:
    """What a measure is, as the title of an axis."""
    name, metric = measure["name"], metric_named(measure.get("metric", ""))
    if name in SHARES:
        return "Share of all weight (%)" if name == "weight_share" else "Asked when available (%)"
    if name == "rounds_to":
        return f"Rounds to a {metric.title.lower()} of {_goal(measure, metric)}"
    if name == "cost_to":
        cost = record_named(measure.get("cost", "local_steps"))
        return f"{cost.title} to a {metric.title.lower()} of {_goal(measure, metric)}"
    if name == "at":
        return f"{metric.title} after {measure['x']:g} rounds{' (%)' if metric.percent else ''}"
    if name == "final":
        return metric.axis_title
    if not metric.name:
        return measure_words(measure).capitalize()
    return f"{metric.title}, {ON_THE_WAY.get(name, name.replace('_', ' '))}{' (%)' if _factor(measure) > 1 else ''}"


def _goal(measure: Measure, metric: Metric) -> str:
    return f"{metric.factor * measure['target']:g}{' %' if metric.percent else ''}"


def _factor(measure: Measure) -> float:
    if measure["name"] in ("rounds_to", "cost_to", "slope"):
        return 1.0
    return 100.0 if measure["name"] in SHARES else metric_named(measure.get("metric", "")).factor


def _measured(curves: Sequence[Curve], measure: Measure) -> Iterator[dict[str, Any]]:
    """One row a panel and label; no numbers where a seed has none, such as a target that is never reached."""
    shown = _of_metric(curves, measure["metric"]) if "metric" in measure else curves
    for panel, label in _unique((curve.panel, curve.label) for curve in shown):
        values = _factor(measure) * measure_values(Measured(curves), measure, panel, label, "figure.measure")
        row = {"panel": panel, "label": label}
        if np.isfinite(values).all():
            band = _mean_and_band(values)
            yield row | band | {"number": f"{band['mean']:.4g}", "never": ""}
        else:
            lost = f"never in {np.sum(~np.isfinite(values))} of {values.size} seeds"
            yield row | {"mean": None, "low": None, "high": None, "number": "", "never": lost}


def _placed(row: dict[str, Any], over: str) -> dict[str, Any]:
    """The row with its place `x` on the swept axis, and a label without it."""
    if over == "panel":
        number = re.search(r"\d+(\.\d+)?", row["panel"])
        if number is None:
            raise ValueError(f"a sweep over panels needs a number in each name; there is none in {row['panel']!r}")
        return row | {"x": float(number.group()), "panel": ""}
    number = re.search(rf"(?:^| ){re.escape(over)}=([-+.\deE]+)", row["label"])
    if number is None:
        return row | {"x": None}
    return row | {"x": float(number.group(1)), "label": row["label"].replace(number.group(), "").strip()}


def _across_panels(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of panels that have the swept number, and those of other panels in each of them."""
    swept = _unique(row["panel"] for row in rows if row["x"] is not None)
    for row in rows:
        if row["panel"] in swept or not swept:
            yield row
        else:
            yield from (row | {"panel": panel, "label": f"{row['panel']}: {row['label']}"} for panel in swept)


def _side_by_side(rows: pl.DataFrame, panels: Sequence[str], draw: Callable[[alt.Chart], Any]) -> Any:
    """One chart a panel, under its name where there are several."""
    charts = []
    for panel in panels:
        chart = draw(alt.Chart(rows.filter(pl.col("panel") == panel)))
        charts.append(chart.properties(title=panel) if len(panels) > 1 else chart)
    return alt.concat(*charts, columns=IN_A_ROW, spacing=30) if len(charts) > 1 else charts[0]


def _legend(curves: Sequence[Curve], symbol: str, width: int) -> tuple[alt.Color, alt.StrokeDash]:
    return _legend_of(_unique(curve.label for curve in curves), symbol, width)


def _legend_of(labels: list[str], symbol: str, width: int) -> tuple[alt.Color, alt.StrokeDash]:
    known = entries("strategies")
    return legend(labels, [strategy_called(label, known) for label in labels], symbol, width)


def _scale(log: bool, **options: Any) -> alt.Scale:
    return alt.Scale(type="log", nice=False, padding=6) if log else alt.Scale(**options)


def _axis(log: bool) -> alt.Axis:
    """On a logarithmic axis only the powers of ten have numbers."""
    return alt.Axis(labelFlush=False, **({"tickCount": 5, "format": "~g"} if log else {}))


def _unique(things: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(things))
