"""An audit as a table, in words, as numbers for another program, and as a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from turnout.auditor import Audit, Audited
from turnout.diagnosis.plain import plain
from turnout.files.whole import free_folder, whole_or_absent
from turnout.report.audit.audit_figure import effective_weights_figure
from turnout.report.audit.audit_page import AUDIT_PAGE, audit_page
from turnout.report.audit.audit_words import off_target
from turnout.report.run.figures import PIXELS


def audit_table(audit: Audit, title: str = "") -> Table:
    """One row a strategy, in the order of the audit."""
    table = Table(title=title or None, caption=_caption(audit), title_justify="left")
    table.add_column("strategy")
    for name in ("consistent", "off target", "unsteady", "stale", "asked", "uploads"):
        table.add_column(name, justify="right")
    for entry in audit.entries:
        table.add_row(
            Text(entry.label),
            Text("yes" if entry.consistent else "no", style="bold" if entry.consistent else ""),
            off_target(entry),
            f"{100 * entry.step_variation:.1f} %",
            f"{entry.staleness:.1f}",
            f"{entry.participants:.1f}",
            f"{entry.uploads:.1f}",
        )
    return table


def _caption(audit: Audit) -> str:
    seeds = f", {len(audit.seeds)} seeds" if len(audit.seeds) > 1 else ""
    return (
        f"{audit.rounds:,} rounds{seeds}, decisions only. off target: share of the weight in the wrong place; "
        "unsteady: standard deviation of a round's total weight; stale: rounds since a client last counted; "
        "asked, uploads: clients a round"
    )


def audit_summary(audit: Audit) -> dict[str, Any]:
    """Everything as plain numbers, null where not finite."""
    return {
        "rounds": audit.rounds,
        "seeds": list(audit.seeds),
        "strategies": [_numbers(entry) for entry in audit.entries],
        "ranking": [entry.label for entry in audit.ranked()],
    }


def _numbers(entry: Audited) -> dict[str, Any]:
    return {
        "label": entry.label,
        "strategy": type(entry.strategy).__name__,
        "consistent": entry.consistent,
        "exact": entry.exact is not None,
        "total_variation": plain(entry.total_variation),
        "total_variation_by_chance": plain(entry.noise),
        "chi_square": plain(entry.chi_square),
        "kl": plain(entry.kl),
        "mean_total_weight": plain(entry.step),
        "variance_of_total_weight": plain(float(entry.moves.var())),
        "staleness": plain(entry.staleness),
        "stalest": int(entry.stalest.max()),
        "asked_a_round": entry.participants,
        "uploads_a_round": entry.uploads,
        "arrivals_a_round": entry.arrivals,
        "most_over": [int(k) for k in entry.over()],
        "most_under": [int(k) for k in entry.under()],
        "notes": list(entry.notes),
        "clients": {
            "target": plain(entry.target),
            "weight": plain(entry.best),
            "played": plain(entry.weights),
            "low": plain(entry.low),
            "high": plain(entry.high),
            "available": plain(entry.available),
        },
    }


def save_audit(audit: Audit, out: str | Path, experiment: str, title: str = "") -> Path:
    """Write the page, `audit.json`, `clients.parquet`, `weights.png` and the experiment; whole or absent."""
    folder = free_folder(out)
    with whole_or_absent(folder) as work:
        (work / "experiment.toml").write_text(experiment, encoding="utf-8")
        (work / "audit.json").write_text(json.dumps(audit_summary(audit), indent=2) + "\n", encoding="utf-8")
        audit.frame().write_parquet(work / "clients.parquet")
        effective_weights_figure(audit, title).save(work / "weights.png", scale_factor=PIXELS)
        (work / AUDIT_PAGE).write_text(audit_page(audit, title, experiment), encoding="utf-8")
    return folder
