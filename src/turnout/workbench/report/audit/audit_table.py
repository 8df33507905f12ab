"""An audit as a table, and as numbers for another program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from turnout.auditor import Audit, Audited
from turnout.workbench.report.audit.audit_charts import audit_styles
from turnout.workbench.report.page.table import Cell, Column, Table

MEANING = (
    "Consistent: every client has its target, as far as chance lets one tell. Off target: share of the weight in the "
    "wrong place. Unsteady: standard deviation of a round's total weight over its mean. Stale: rounds since a client "
    "last counted. Asked, uploads: clients per round."
)


def audit_table(audit: Audit, title: str = "") -> Table:
    """One row per strategy, in the order of the audit."""
    entries, styles = audit.entries, audit_styles(audit)
    labels = tuple(Cell(entry.label, entry.label, style=styles[entry.label]) for entry in entries)
    notes, noted = tuple(Cell("; ".join(entry.notes), entry.notes) for entry in entries), any(e.notes for e in entries)
    columns = (
        Column("strategy", labels, "label"),
        Column.hidden("strategy", [type(entry.strategy).__name__ for entry in entries]),
        Column("consistent", tuple(map(_verdict, entries)), "consistent"),
        Column.hidden("exact", [entry.exact is not None for entry in entries]),
        Column("off target", tuple(map(_off_target, entries)), "total_variation"),
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
    size = f"{audit.rounds:,} rounds{seeds}, decisions only"
    return Table(columns, f"{title} ({size})" if title else size, MEANING)


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


def _verdict(entry: Audited) -> Cell:
    return Cell("yes" if entry.consistent else "no", entry.consistent, best=entry.consistent)


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
