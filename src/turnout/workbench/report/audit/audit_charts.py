"""The charts of an audit: how much each client counts, over how much it should."""

from __future__ import annotations

from dataclasses import replace

import altair as alt
import numpy as np

from turnout.auditor import Audit, Audited
from turnout.statistics import evenly
from turnout.workbench.report.page.chart import Axis, Chart, Drawing, Series, one_each
from turnout.workbench.report.page.colours import Style, line_styles
from turnout.workbench.report.page.labels import relabel, strategy_name
from turnout.workbench.report.page.on_paper import figure
from turnout.workbench.report.run.client_charts import LEAST_FIRST, MOST_CLIENTS, about_clients, weights_chart
from turnout.workbench.report.run.groups import groups_of
from turnout.workbench.report.run.run_charts import groups_chart

WIDTH, HEIGHT = 230, 190  # of a panel on paper
INTERVALS = "Bars: 95 % intervals; none where the weight is exact."


def relabel_audit(audit: Audit) -> Audit:
    """The same audit with strategies as papers call them."""
    return replace(audit, entries=relabel(audit.entries, _names(audit)))


def audit_styles(audit: Audit) -> dict[str, Style]:
    """How each strategy is drawn."""
    return line_styles([entry.label for entry in audit.entries], _names(audit))


def _names(audit: Audit) -> list[str]:
    return [strategy_name(entry.strategy) for entry in audit.entries]


def audit_charts(audit: Audit) -> dict[str, Drawing]:
    """The charts of the page by name."""
    return {"groups": _groups(audit), "weights": weights_chart(_clients(audit), LEAST_FIRST, INTERVALS)}


def effective_weights_figure(audit: Audit, title: str = "") -> alt.TopLevelMixin:
    """A panel per strategy: weight over target of every client, with its interval, by availability; one is right."""
    by_availability = [replace(series, x=series.more[0].values) for series in _clients(audit)]
    chart = weights_chart(by_availability, Axis("Available", "% of rounds", domain=(0.0, 100.0)), INTERVALS)
    panels, names = one_each(replace(chart, height=HEIGHT)), [series.label for series in chart.series]
    lines = [title, f"{audit.rounds:,} rounds. {chart.note}"]
    return figure(panels, chart.title, lines, names, width=WIDTH, legend=False, spacing=24)


def _groups(audit: Audit) -> Chart:
    """Share of the weight by availability, as seen by the first strategy; all meet the same absences."""
    first, styles = audit.entries[0], audit_styles(audit)
    groups = groups_of(first.available, None)

    def shares(weights: np.ndarray) -> np.ndarray:
        return np.array([100 * weights[group.members].sum() for group in groups])

    series = [Series(entry.label, styles[entry.label], shares(entry.best)) for entry in audit.entries]
    return groups_chart(tuple(group.name for group in groups), series, shares(first.target))


def _clients(audit: Audit) -> list[Series]:
    styles = audit_styles(audit)
    return [_ratios(entry, styles[entry.label]) for entry in audit.entries]


def _ratios(entry: Audited, style: Style) -> Series:
    """Weight over target of clients with a target, evenly spread from the least available to the most."""
    order = np.argsort(entry.available, kind="stable")
    order = order[entry.target[order] > 0]
    place = evenly(len(order), MOST_CLIENTS)
    chosen = order[place]
    target = entry.target[chosen]
    ends = (entry.low[chosen] / target, entry.high[chosen] / target) if entry.exact is None else (None, None)
    drawn = Series(entry.label, style, entry.best[chosen] / target, 100 * (place + 1) / len(order), *ends)
    return about_clients(drawn, [entry.name(k) for k in chosen.tolist()], entry.available[chosen], target)
