"""What an audit tells besides where work takes time: formulas beside what was played, and ages of updates."""

from __future__ import annotations

from collections.abc import Sequence

from turnout.auditor import Audit, Audited
from turnout.workbench.report.page.table import Cell, Column

MEANING_IN_TIME = (
    "A round is a tick here, and a total weight that of a step. By formula: off target without any run, where theory "
    "has a formula. Age: server steps since the client was sent the model, of updates that counted: the median, and "
    "what nine of ten do not exceed."
)


def length_of(audit: Audit) -> str:
    """How long an audit is, in rounds or in ticks."""
    return f"{audit.rounds:,} {'ticks' if any(entry.ages is not None for entry in audit.entries) else 'rounds'}"


def time_columns(entries: Sequence[Audited]) -> list[Column]:
    """Columns of the table; none where no work takes time."""
    if all(entry.ages is None for entry in entries):
        return []
    return [
        Column("by formula", tuple(map(_by_formula, entries)), "total_variation_by_formula"),
        Column("age", tuple(map(_age, entries)), "age"),
    ]


def _by_formula(entry: Audited) -> Cell:
    off = entry.off_by_formula
    return Cell("–" if off is None else f"{100 * off:.2f} %", off)


def _age(entry: Audited) -> Cell:
    if entry.ages is None:
        return Cell("–")
    values = {"mean": entry.ages.mean, "median": entry.ages.median, "high": entry.ages.high}
    return Cell(f"{entry.ages.median:,.0f}, {entry.ages.high:,.0f}", values)
