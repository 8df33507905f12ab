"""An audit as one HTML file: whom each strategy would train for."""

from __future__ import annotations

import numpy as np

from turnout.auditor import Audit, Audited
from turnout.workbench.report.audit.audit_charts import audit_charts, audit_styles
from turnout.workbench.report.audit.audit_table import audit_table, clients_table
from turnout.workbench.report.audit.audit_words import audit_words, extremes, finding, with_half
from turnout.workbench.report.diagnosis.readable import percent
from turnout.workbench.report.page.on_page import legend
from turnout.workbench.report.page.shell import copyable, figures_or_why, glance, page, paragraph, section

MOST_NAMED = 5  # clients in a table, on either side


def audit_page(audit: Audit, title: str, experiment: str) -> str:
    """The whole page; `experiment` is the TOML that was audited."""
    charts, table = audit_charts(audit), audit_table(audit)
    first, more = audit.entries[0], audit_words(audit)[1:]
    seeds = f", {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    size = f"{first.target.size:,} clients, {audit.rounds:,} rounds{seeds}: the server's decisions, without training."
    parts = [
        paragraph([finding(first)], "lead"),
        _at_a_glance(first),
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


def _at_a_glance(entry: Audited) -> str:
    return "" if entry.consistent else favoured_at_a_glance(entry.best, entry.target, f" under {entry.label}")


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
