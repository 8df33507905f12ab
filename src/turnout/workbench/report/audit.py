"""An audit as charts, a table, words, numbers and a page, and the folder with all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from turnout.auditor import Audit, Audited
from turnout.declarations import checked
from turnout.files.whole import free_folder, whole_or_absent
from turnout.statistics import evenly
from turnout.workbench.report.audit_in_time import MEANING_IN_TIME, length_of, time_columns
from turnout.workbench.report.diagnosis.readable import percent
from turnout.workbench.report.page.chart import Axis, Chart, Drawing, Series, one_each
from turnout.workbench.report.page.colours import Style, line_styles
from turnout.workbench.report.page.labels import relabel, strategy_name
from turnout.workbench.report.page.on_paper import PIXELS, figure
from turnout.workbench.report.page.shell import copyable, figures_or_why, glance, legend, page, paragraph, section
from turnout.workbench.report.page.table import Cell, Column, Table
from turnout.workbench.report.run.compared import groups_of
from turnout.workbench.report.run.run_charts import (
    LEAST_FIRST,
    MOST_CLIENTS,
    about_clients,
    groups_chart,
    weights_chart,
)

WIDTH, HEIGHT = 230, 190  # of a panel on paper
INTERVALS = "Bars: 95 % intervals; none where the weight is exact."
MEANING = (
    "Consistent: every client has its target, as far as chance lets one tell. Off target: share of the weight in the "
    "wrong place. Unsteady: standard deviation of a round's total weight over its mean. Stale: rounds since a client "
    "last counted. Asked, uploads: clients per round."
)
SHOWN = 3  # clients named on either side
MOST_NAMED = 5  # clients in a table, on either side


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
    return {"groups": _groups(audit), "weights": weights_chart(_client_series(audit), LEAST_FIRST, INTERVALS)}


def effective_weights_figure(audit: Audit, title: str = "") -> alt.TopLevelMixin:
    """A panel per strategy: weight over target of every client, with its interval, by availability; one is right."""
    by_availability = [replace(series, x=series.more[0].values) for series in _client_series(audit)]
    chart = weights_chart(by_availability, Axis("Available", "% of rounds", domain=(0.0, 100.0)), INTERVALS)
    panels, names = one_each(replace(chart, height=HEIGHT)), [series.label for series in chart.series]
    lines = [title, f"{length_of(audit)}. {chart.note}"]
    return figure(panels, chart.title, lines, names, width=WIDTH, legend=False, spacing=24)


def _groups(audit: Audit) -> Chart:
    """Share of the weight by availability, as seen by the first strategy; all meet the same absences."""
    first, styles = audit.entries[0], audit_styles(audit)
    groups = groups_of(first.available, None, first.duration)

    def shares(weights: np.ndarray) -> np.ndarray:
        return np.array([100 * weights[group.members].sum() for group in groups])

    series = [Series(entry.label, styles[entry.label], shares(entry.best)) for entry in audit.entries]
    return groups_chart(tuple(group.name for group in groups), series, shares(first.target))


def _client_series(audit: Audit) -> list[Series]:
    """Weight over target of clients with a target, evenly spread from the least available to the most."""
    styles, series = audit_styles(audit), []
    for entry in audit.entries:
        order = np.argsort(entry.available, kind="stable")
        order = order[entry.target[order] > 0]
        place = evenly(len(order), MOST_CLIENTS)
        chosen = order[place]
        target, x = entry.target[chosen], 100 * (place + 1) / len(order)
        ends = (entry.low[chosen] / target, entry.high[chosen] / target) if entry.exact is None else (None, None)
        drawn = Series(entry.label, styles[entry.label], entry.best[chosen] / target, x, *ends)
        names = [entry.name(k) for k in chosen.tolist()]
        series.append(about_clients(drawn, names, entry.available[chosen], target))
    return series


def audit_table(audit: Audit, title: str = "") -> Table:
    """One row per strategy, in the order of the audit."""
    entries, styles = audit.entries, audit_styles(audit)
    labels = tuple(Cell(entry.label, entry.label, style=styles[entry.label]) for entry in entries)
    verdicts = tuple(Cell("yes" if one.consistent else "no", one.consistent, best=one.consistent) for one in entries)
    notes, noted = tuple(Cell("; ".join(entry.notes), entry.notes) for entry in entries), any(e.notes for e in entries)
    columns = (
        Column("strategy", labels, "label"),
        Column.hidden("strategy", [type(entry.strategy).__name__ for entry in entries]),
        Column("consistent", verdicts, "consistent"),
        Column.hidden("exact", [entry.exact is not None for entry in entries]),
        Column("off target", tuple(map(_off_target, entries)), "total_variation"),
        *time_columns(entries),
        Column.hidden("total_variation_by_chance", [entry.noise for entry in entries]),
        Column.hidden("chi_square", [entry.chi_square for entry in entries]),
        Column.hidden("kl", [entry.kl for entry in entries]),
        Column.of("unsteady", [f"{100 * entry.step_variation:.1f} %" for entry in entries]),
        Column.hidden("mean_total_weight", [entry.step for entry in entries]),
        Column.hidden("variance_of_total_weight", [float(entry.moves.var()) for entry in entries]),
        _rate("stale", "staleness", [entry.staleness for entry in entries]),
        Column.hidden("stalest", [int(entry.stalest.max()) for entry in entries]),
        _rate("asked", "asked_a_round", [entry.participants for entry in entries]),
        _rate("uploads", "uploads_a_round", [entry.uploads for entry in entries]),
        Column.hidden("arrivals_a_round", [entry.arrivals for entry in entries]),
        Column.hidden("most_over", [entry.over() for entry in entries]),
        Column.hidden("most_under", [entry.under() for entry in entries]),
        Column("note" if noted else "", notes, "notes", words=True, page_only=True),
        Column.hidden("clients", map(_clients, entries)),
    )
    seeds = f", {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    size = f"{length_of(audit)}{seeds}, decisions only"
    meaning = f"{MEANING} {MEANING_IN_TIME}" if time_columns(entries) else MEANING
    return Table(columns, f"{title} ({size})" if title else size, meaning)


def clients_table(names: Iterable[str], asked: np.ndarray, gets: np.ndarray, there: np.ndarray | None = None) -> Table:
    """Clients with the weight that they should get and the one that they get; `there`: how often they come."""
    ratios = (f"{b / a:.2f}" if a > 0 else "–" for a, b in zip(asked, gets, strict=True))
    columns = [
        Column.of("client", names),
        Column.of("asked", [f"{100 * share:.3g} %" for share in asked]),
        Column.of("gets", [f"{100 * share:.3g} %" for share in gets]),
        Column.of("gets ÷ asked", ratios),
    ]
    if there is not None:
        columns.insert(1, Column.of("there", [f"{100 * share:.0f} %" for share in there]))
    return Table(tuple(columns))


def _off_target(entry: Audited) -> Cell:
    """Total variation in percent: exact, or with what chance alone would show."""
    chance = "" if entry.exact is not None else f"(chance {100 * entry.noise:.2f})"
    return Cell(f"{100 * entry.total_variation:.2f} %", entry.total_variation, chance)


def _rate(title: str, key: str, values: list[float]) -> Column:
    return Column.of(title, [f"{value:.1f}" for value in values], values, key=key)


def _clients(entry: Audited) -> dict[str, Any]:
    weights = {"target": entry.target, "weight": entry.best, "played": entry.weights}
    weights |= {} if entry.names is None else {"name": entry.names}
    return weights | {"low": entry.low, "high": entry.high, "available": entry.available}


def audit_summary(audit: Audit) -> dict[str, Any]:
    """Everything as plain numbers, null where not finite."""
    return {
        "rounds": audit.rounds,
        "seeds": list(audit.seeds),
        "strategies": audit_table(audit).records(),
        "ranking": [entry.label for entry in audit.ranked()],
    }


def audit_words(audit: Audit) -> list[str]:
    """What a reader should take away."""
    first, nearest = audit.entries[0], min(audit.entries, key=lambda entry: entry.total_variation)
    good = [entry.label for entry in audit.ranked() if entry.consistent]
    on_the_rest = who_is_fair(good, nearest.label, f"{100 * nearest.total_variation:.2f} %")
    sentences = [f"{finding(first)} {extremes(first)}".strip(), on_the_rest]
    for note in dict.fromkeys(note for entry in audit.entries for note in entry.notes):
        concerned = [entry.label for entry in audit.entries if note in entry.notes]
        sentences.append(f"{'All' if len(concerned) == len(audit.entries) else ', '.join(concerned)}: {note}.")
    return [sentence for sentence in sentences if sentence]


def finding(entry: Audited) -> str:
    """How far a strategy is from its target."""
    if entry.consistent:
        return f"{entry.label} gives every client its target here."
    half = with_half(entry.best).size / entry.best.size
    return (
        f"{entry.label} puts {100 * entry.total_variation:.1f} % of the weight in the wrong place: half of all weight "
        f"goes to {100 * half:.0f} % of the clients."
    )


def extremes(entry: Audited) -> str:
    """The clients that are furthest from their targets; empty where the strategy is consistent."""
    if entry.consistent:
        return ""
    over, under = (
        ", ".join(
            f"client {entry.name(k)} ({entry.ratio[k]:.2f} times, there {100 * entry.available[k]:.0f} %)"
            for k in side.tolist()
        )
        for side in (entry.over(SHOWN), entry.under(SHOWN))
    )
    return f"Most above target: {over}. Most below: {under}."


def with_half(weights: np.ndarray) -> np.ndarray:
    """The fewest clients that together have half of the weight."""
    order = np.argsort(-weights, kind="stable")
    return order[: int(np.searchsorted(np.cumsum(weights[order]), 0.5 - 1e-12)) + 1]


def who_is_fair(fair: list[str], nearest: str, off: str) -> str:
    """The strategies that an audit finds consistent, or else the one that comes nearest."""
    if fair:
        return f"Consistent here, the steadiest first: {', '.join(fair)}."
    return f"None is consistent here; {nearest} comes nearest, {off} off."


def audit_page(audit: Audit, title: str, experiment: str) -> str:
    """The whole page; `experiment` is the TOML that was audited."""
    charts, table = audit_charts(audit), audit_table(audit)
    first, more = audit.entries[0], audit_words(audit)[1:]
    seeds = f", {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    size = f"{first.target.size:,} clients, {length_of(audit)}{seeds}: the server's decisions, without training."
    parts = [
        paragraph([finding(first)], "lead"),
        "" if first.consistent else favoured_at_a_glance(first.best, first.target, f" under {first.label}"),
        paragraph(more),
        paragraph([extremes(first)]),
        paragraph([size], "soft"),
        legend(audit_styles(audit)),
        section("Strategies", table.html(), paragraph([table.note], "small soft")),
        section("Whom each would train for", figures_or_why(charts, "groups", "weights")),
        section(f"Clients furthest from their target under {first.label}", _furthest(first)),
        section(
            "What was audited", f"<details><summary>The experiment</summary>{copyable('toml', experiment)}</details>"
        ),
    ]
    return page(f"Audit: {title}" if title else "Audit", parts, charts)


def favoured_at_a_glance(weight: np.ndarray, target: np.ndarray, under: str = "") -> str:
    """The clients with half of the weight: their share of the fleet, of the target and of the weight."""
    favoured = with_half(weight)
    shares = {
        "of the clients": favoured.size / weight.size,
        "of the weight is asked for them": float(target[favoured].sum()),
        f"of the weight is theirs{under}": float(weight[favoured].sum()),
    }
    return glance({f"{percent(share)} {words}": share for words, share in shares.items()})


def _furthest(entry: Audited) -> str:
    if entry.consistent:
        return ""
    chosen = list(dict.fromkeys([*entry.over(MOST_NAMED).tolist(), *entry.under(MOST_NAMED).tolist()[::-1]]))
    names = [f"client {entry.name(k)}" for k in chosen]
    return clients_table(names, entry.target[chosen], entry.best[chosen], entry.available[chosen]).html()


@checked
def save_audit(audit: Audit, out: str | Path, experiment: str, title: str = "") -> Path:
    """Write the page, `audit.json`, `clients.parquet`, `weights.png` and the experiment; whole or absent."""
    folder, shown = free_folder(out), relabel_audit(audit)
    with whole_or_absent(folder) as work:
        (work / "experiment.toml").write_text(experiment, encoding="utf-8")
        (work / "audit.json").write_text(json.dumps(audit_summary(audit), indent=2) + "\n", encoding="utf-8")
        audit.frame().write_parquet(work / "clients.parquet")
        effective_weights_figure(shown, title).save(work / "weights.png", scale_factor=PIXELS)
        (work / "audit.html").write_text(audit_page(shown, title, experiment), encoding="utf-8")
    return folder
