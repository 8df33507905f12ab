"""A claim as a figure: one chart per panel, each kind made from the curves of a reproduction alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from turnout.metrics import Metric, metric_named, record_named
from turnout.workbench.experiment import toml
from turnout.workbench.experiment.citations import short_citation
from turnout.workbench.experiment.registry import entries
from turnout.workbench.experiment.signatures import function_and_arguments
from turnout.workbench.report.page.chart import Axis, Chart, Kind, Rule, Series
from turnout.workbench.report.page.colours import Style, colour, guess_strategy, line_styles
from turnout.workbench.report.page.on_paper import PANEL, figure
from turnout.workbench.report.run.compared import groups_of, weight_shares
from turnout.workbench.report.run.curves import mean_and_band, mean_and_spread
from turnout.workbench.reproduction.curve_table import CURVES, Curve, Measured, read_curves
from turnout.workbench.reproduction.measures import measure_values, measure_words

SHARES = ("weight_share", "asked_share")
ON_THE_WAY = {"best": "best", "time_average": "mean over the rounds", "late_deviation": "late deviation"}
MOST_POINTS = 4000  # of a panel: Altair refuses more than 5000

Measure = dict[str, Any]  # its name and its arguments, as in a claim
Charts = dict[str, Chart]  # by panel
ALONE = 560  # width of a single panel
SCALE = 1.25  # pixels of the image per pixel of the chart: results are kept beside the code, and should be small
SPREADS = {
    "curves": "Line: mean over {seeds}. Band: one standard deviation.",
    "bars": "Dot: mean over {seeds}. Whisker: one standard deviation.",
    "sweep": "Dot: mean over {seeds}. Whisker: one standard deviation.",
    "groups": "Bar: mean over {seeds}. Whisker: one standard deviation. Dashed: the target.",
}


def curves(
    curves: Sequence[Curve],
    metric: str,
    log_y: bool = False,
    log_x: bool = False,
    x_title: str = "Round",
    title: str = "",
    points: bool = False,
) -> Charts:
    """A metric over the rounds: one line per label in a band of one standard deviation over the seeds.

    Round 0, the untrained model, is left out: it would take up most of the axis. `points` draws dots instead of lines,
    for an x without an order.
    """
    shown = _of_metric(curves, metric)
    about, styles = metric_named(metric), _styles(curve.label for curve in shown)
    trained = x_title == "Round" and any((curve.x > 0).any() for curve in shown)
    series = []
    for curve in shown:
        places = _places(len(curve.x), MOST_POINTS // len(styles), log_x)
        x, values = curve.x[places].astype(np.float64), curve.values[:, places].astype(np.float64) * about.factor
        kept = np.isfinite(values).all(axis=0) & ((x > 0) | (not log_x and not trained))
        mean, low, high = mean_and_band(values[:, kept], log_y)
        drawn = mean > 0 if log_y else slice(None)
        ends = (None, None) if points else (low[drawn], high[drawn])
        series.append((curve.panel, Series(curve.label, styles[curve.label], mean[drawn], x[kept][drawn], *ends)))
    across, up = Axis(x_title, log=log_x), Axis(title or about.title, "" if title or not about.percent else "%", log_y)
    return _by_panel("dots" if points else "lines", across, up, series)


def bars(curves: Sequence[Curve], measure: Measure, title: str = "") -> Charts:
    """A measure by label: the mean over the seeds, a whisker of one standard deviation, the number beside it."""
    strategies = entries("strategies")
    measured = list(_measure(curves, measure))
    labels = list(dict.fromkeys(one.label for one in measured))
    series = []
    for one in sorted(measured, key=lambda one: labels.index(one.label)):  # in the same order in all panels
        style = Style.of(colour(guess_strategy(one.label, strategies)))
        mean, low, high = np.array([[one.mean], [one.mean - one.spread], [one.mean + one.spread]])
        series.append((one.panel, Series(one.label, style, mean, None, low, high, names=(one.words,))))
    return _by_panel("ranges", Axis(""), Axis(title or measure_title(measure)), series)


def sweep(
    curves: Sequence[Curve],
    measure: Measure,
    over: str,
    title: str = "",
    x_title: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Charts:
    """A measure over a swept number, one line per strategy; strategies without the number are horizontal lines.

    A panel in which no label has it becomes horizontal lines in the others, under its name. The number is that of
    `over` in labels such as "CA-Fed kappa=0.1", or, where `over` is "panel", the first one in the panel's name.
    """
    placed = [_place(ending, over) for ending in _measure(curves, measure) if np.isfinite(ending.mean)]
    lines: dict[tuple[str, str], list[Ending]] = {}
    for ending in _across_panels(placed):
        lines.setdefault((ending.panel, ending.label), []).append(ending)
    styles = _styles(label for _, label in lines)
    series = []
    for (panel, label), line in lines.items():
        x, mean, spread = (np.array([getattr(ending, name) for ending in line]) for name in ("x", "mean", "spread"))
        swept = x if np.isfinite(x).all() else None
        series.append((panel, Series(label, styles[label], mean, swept, mean - spread, mean + spread)))
    across, up = Axis(x_title or over, log=log_x), Axis(title or measure_title(measure), log=log_y)
    return _by_panel("sweep", across, up, series)


def groups(curves: Sequence[Curve]) -> Charts:
    """Weight of each class of clients over its target; classes by π and λ.

    Taken from curves over the clients: "weight" and "pi", and "lam" and "target" if there are any. Without a target
    all clients should count the same.
    """
    shown = _of_metric(curves, "weight")
    styles = _styles(curve.label for curve in shown)
    ratios = {(curve.panel, curve.label): _by_class(curve, curves) for curve in shown}
    longest = max(ratios.values(), key=len)
    names = tuple(dict.fromkeys([*longest, *(name for by_class in ratios.values() for name in by_class)]))
    series = []
    for (panel, label), by_class in ratios.items():
        nothing = np.full(len(next(iter(by_class.values()))), np.nan)
        mean, low, high = mean_and_band(np.stack([by_class.get(name, nothing) for name in names], axis=1))
        series.append((panel, Series(label, styles[label], mean, None, low, high)))
    x, y = Axis("Clients, from the least available to the most", names=names), Axis("Weight over target")
    return _by_panel("bars", x, y, series, (Rule(1.0),))


FIGURES: dict[str, Callable[..., Charts]] = {figure.__name__: figure for figure in (curves, bars, sweep, groups)}


def _by_panel(
    kind: Kind, x: Axis, y: Axis, series: Sequence[tuple[str, Series]], rules: tuple[Rule, ...] = ()
) -> Charts:
    return {
        panel: Chart(kind, panel, x, y, tuple(line for name, line in series if name == panel), rules=rules)
        for panel in dict.fromkeys(name for name, _ in series)
    }


def _by_class(weight: Curve, curves: Sequence[Curve]) -> dict[str, np.ndarray]:
    """Weight of each class over its target, by seed."""
    facts = {
        curve.metric: curve.values[0] for curve in curves if (curve.panel, curve.label) == (weight.panel, weight.label)
    }
    if "pi" not in facts:
        raise ValueError(f"{weight.label}: without a curve of 'pi' the classes of the clients are not known")
    target = facts.get("target", np.ones(len(weight.x)))
    target = target / target.sum()
    shares = weight_shares(weight.values)
    return {
        group.name: shares[:, group.members].sum(axis=1) / target[group.members].sum()
        for group in groups_of(facts["pi"], facts.get("lam"))
    }


def _of_metric(curves: Sequence[Curve], metric: str) -> list[Curve]:
    shown = [curve for curve in curves if curve.metric == metric]
    if not shown:
        metrics = ", ".join(dict.fromkeys(curve.metric for curve in curves))
        raise ValueError(f"there is no curve of {metric!r} to draw; there are {metrics}")
    return shown


def _places(count: int, most: int, log: bool) -> np.ndarray:
    """Indices of the points that are drawn: all, or `most` of them from the first to the last."""
    if count <= most:
        return np.arange(count)
    spread = np.geomspace(1, count, most) - 1 if log else np.linspace(0, count - 1, most)
    return np.unique(spread.round().astype(np.int64))


def _styles(labels: Iterable[str]) -> dict[str, Style]:
    unique, strategies = list(dict.fromkeys(labels)), entries("strategies")
    return line_styles(unique, [guess_strategy(label, strategies) for label in unique])


@dataclass(frozen=True)
class Ending:
    """A measure of one label in one panel."""

    panel: str
    label: str
    mean: float  # over the seeds; NaN where a seed has none, such as a target that is never reached
    spread: float
    words: str  # the number, or how many seeds have none
    x: float = np.nan  # the swept number, where it has one


def _measure(curves: Sequence[Curve], measure: Measure) -> Iterator[Ending]:
    shown = _of_metric(curves, measure["metric"]) if "metric" in measure else curves
    for panel, label in dict.fromkeys((curve.panel, curve.label) for curve in shown):
        values = _factor(measure) * measure_values(Measured(curves), measure, panel, label, "figure.measure")
        lost = int(np.sum(~np.isfinite(values)))
        if lost:
            yield Ending(panel, label, np.nan, np.nan, f"never in {lost} of {values.size} seeds")
        else:
            mean, spread = (float(value[0]) for value in mean_and_spread(values[:, None]))
            yield Ending(panel, label, mean, spread, f"{mean:.4g}")


def _place(ending: Ending, over: str) -> Ending:
    """The measure with its place on the swept axis, and a label without it."""
    if over == "panel":
        number = re.search(r"\d+(\.\d+)?", ending.panel)
        if number is None:
            raise ValueError(f"a sweep over panels needs a number in each name; there is none in {ending.panel!r}")
        return replace(ending, x=float(number.group()), panel="")
    number = re.search(rf"(?:^| ){re.escape(over)}=([-+.\deE]+)", ending.label)
    if number is None:
        return ending
    return replace(ending, x=float(number.group(1)), label=ending.label.replace(number.group(), "").strip())


def _across_panels(endings: Sequence[Ending]) -> Iterator[Ending]:
    """The measures of panels with a swept number; those of the other panels are repeated in each of these."""
    swept = list(dict.fromkeys(ending.panel for ending in endings if np.isfinite(ending.x)))
    for ending in endings:
        if ending.panel in swept or not swept:
            yield ending
        else:
            label = f"{ending.panel}: {ending.label}"
            yield from (replace(ending, panel=panel, label=label) for panel in swept)


def measure_title(measure: Measure) -> str:
    """The title of an axis that shows a measure."""
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


def write_figure(folder: Path) -> Path:
    """Draw `figure.png` of a reproduction's folder from its claim.toml and its curves."""
    path = folder / "figure.png"
    claim_figure(toml.read(folder / "claim.toml"), read_curves(folder / CURVES)).save(path, scale_factor=SCALE)
    return path


def claim_figure(claim: dict[str, Any], curves: Sequence[Curve]) -> Any:
    """The figure that a claim describes; by default, the curves of its first metric."""
    asked = claim.get("figure") or {"name": "curves", "metric": curves[0].metric}
    describe, arguments = function_and_arguments(FIGURES, asked, "figure", ("curves",))
    charts = describe(curves, **arguments)
    lines = [claim.get("claim", ""), source(claim), _spread(asked, curves)]
    width = PANEL if len(charts) > 1 else ALONE
    return figure(list(charts.values()), claim.get("title", ""), lines, list(charts), width=width)


def source(claim: dict[str, Any]) -> str:
    """The source of a claim: authors, year, and the place in the paper."""
    paper = short_citation(claim["paper"]) if claim.get("paper") else ""
    where = claim.get("where", "")
    return f"{paper}, {where}" if paper and where else paper or where.capitalize()


def _spread(figure: dict[str, Any], curves: Sequence[Curve]) -> str:
    seeds = max(len(curve.seeds) for curve in curves)
    form = "Dot: mean over {seeds}." if figure.get("points") else SPREADS[figure["name"]]
    return form.format(seeds=f"{seeds} seeds") if seeds > 1 else ""
