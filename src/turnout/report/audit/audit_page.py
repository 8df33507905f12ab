"""An audit as one HTML file: whom each strategy would train for."""

from __future__ import annotations

import numpy as np

from turnout.auditor import Audit, Audited
from turnout.report.audit.audit_words import audit_words, off_target, with_half
from turnout.report.page.colours import page_styles
from turnout.report.page.shell import Spec, charts_beside, copied, glance, legend, page, paragraph, section, table
from turnout.report.run.groups import groups_of
from turnout.report.run.run_charts import numbers, weight_over_target
from turnout.statistics import evenly

AUDIT_PAGE = "audit.html"
MOST_CLIENTS = 400  # shown of a strategy
MOST_NAMED = 5  # clients in a table, on either side
MEANING = (
    "Consistent: every client has its target, as far as chance lets one tell. Off target: share of the weight in the "
    "wrong place. Unsteady: standard deviation of a round's total weight over its mean. Stale: rounds since a client "
    "last counted. Asked, uploads: clients a round."
)


def audit_page(audit: Audit, title: str, experiment: str) -> str:
    """The whole page; `experiment` is the TOML that was audited."""
    labels = [entry.label for entry in audit.entries]
    strategies = [type(entry.strategy).__module__.rpartition(".")[2] for entry in audit.entries]
    styles, charts = page_styles(labels, strategies), _charts(audit)
    lead, *more = audit_words(audit)
    lead, _, named = lead.partition(". ")  # whom it names comes after what it finds
    first = audit.entries[0]
    seeds = f", {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    size = f"{first.target.size:,} clients, {audit.rounds:,} rounds{seeds}: the server's decisions, without training."
    parts = [
        paragraph([f"{lead.removesuffix('.')}."], "lead"),
        _at_a_glance(first),
        paragraph(more),
        paragraph([named]),
        paragraph([size], "soft"),
        legend(styles) if len(labels) > 1 else "",
        section("Strategies", _strategies(audit), paragraph([MEANING], "small soft")),
        section("Whom each would train for", charts_beside(charts, "groups", "weights")),
        section(f"Clients furthest from their target under {first.label}", _furthest(first)),
        section(
            "What was audited", f"<details><summary>The experiment</summary>{copied('toml', experiment)}</details>"
        ),
    ]
    return page(f"Audit: {title}" if title else "Audit", [part for part in parts if part], charts, styles)


def _at_a_glance(entry: Audited) -> str:
    if entry.consistent:
        return ""
    favoured = with_half(entry.best)
    clients, asked = favoured.size / entry.best.size, float(entry.target[favoured].sum())
    got = float(entry.best[favoured].sum())
    return glance(
        {
            "clients": (clients, f"{100 * clients:.0f} % of the clients"),
            "asked": (asked, f"{100 * asked:.0f} % of the weight is asked for them"),
            "got": (got, f"{100 * got:.0f} % of the weight is theirs under {entry.label}"),
        }
    )


def _strategies(audit: Audit) -> str:
    noted = any(entry.notes for entry in audit.entries)
    header = ["strategy", "consistent", "off target", "unsteady", "stale", "asked", "uploads", *["note"] * noted]
    rows = [
        [
            entry.label,
            "yes" if entry.consistent else "no",
            off_target(entry),
            f"{100 * entry.step_variation:.1f} %",
            f"{entry.staleness:.1f}",
            f"{entry.participants:.1f}",
            f"{entry.uploads:.1f}",
            *["; ".join(entry.notes)] * noted,
        ]
        for entry in audit.entries
    ]
    return table(header, rows, told=noted, labels=[entry.label for entry in audit.entries])


def _furthest(entry: Audited) -> str:
    if entry.consistent:
        return ""
    chosen = [*entry.over(MOST_NAMED).tolist(), *entry.under(MOST_NAMED).tolist()[::-1]]
    rows = [
        (
            f"client {k}",
            f"{100 * entry.available[k]:.0f} %",
            f"{100 * entry.target[k]:.3g} %",
            f"{100 * entry.best[k]:.3g} %",
            f"{entry.ratio[k]:.2f}",
        )
        for k in dict.fromkeys(chosen)
    ]
    return table(("client", "there", "asked", "gets", "gets ÷ asked"), rows)


def _charts(audit: Audit) -> dict[str, Spec]:
    return {"groups": _groups(audit), "weights": _weights(audit)}


def _groups(audit: Audit) -> Spec:
    """Share of the weight by availability, as seen by the first strategy; all meet the same absences."""
    first = audit.entries[0]
    found = groups_of(first.available, None)
    series = [
        {"label": entry.label, "y": numbers([100 * entry.best[group.members].sum() for group in found])}
        for entry in audit.entries
    ]
    return {
        "kind": "bars",
        "title": "Share of the weight, by availability",
        "note": "Mark across the bars: the share that the target asks for.",
        "x": {"title": "Clients by availability", "names": [group.name for group in found]},
        "y": {"title": "Share of all weight", "unit": "%"},
        "targets": numbers([100 * first.target[group.members].sum() for group in found]),
        "series": series,
    }


def _weights(audit: Audit) -> Spec:
    return weight_over_target(
        [_dots(entry) for entry in audit.entries], "95 % intervals; none where the weight is exact"
    )


def _dots(entry: Audited) -> Spec:
    order = np.argsort(entry.available, kind="stable")
    order = order[entry.target[order] > 0]
    place = evenly(len(order), MOST_CLIENTS)
    chosen = order[place]
    target = entry.target[chosen]
    more = [["available", numbers(100 * entry.available[chosen]), "%"], ["target", numbers(100 * target), "%"]]
    ends = {"low": numbers(entry.low[chosen] / target), "high": numbers(entry.high[chosen] / target)}
    return {
        "label": entry.label,
        "names": [f"client {k}" for k in chosen.tolist()],
        "x": numbers(100 * (place + 1) / len(order)),
        "y": numbers(entry.best[chosen] / target),
        "more": more,
    } | (ends if entry.exact is None else {})
