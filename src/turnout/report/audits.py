"""An audit as a table, in words, as numbers for another program, and as a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from turnout.auditor import Audit, Audited
from turnout.diagnosis.plain import plain
from turnout.experiment.folders import free_folder, whole_or_absent
from turnout.report.audit_figure import effective_weights_figure
from turnout.report.figures import PIXELS

SHOWN = 3  # clients named on either side


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


def off_target(entry: Audited) -> str:
    """Total variation in percent: exact, or with what chance alone would show."""
    shown = f"{100 * entry.total_variation:.2f} %"
    return shown if entry.exact is not None else f"{shown} (chance {100 * entry.noise:.2f})"


def audit_words(audit: Audit) -> list[str]:
    """What a reader should take away."""
    sentences = [_on_the_first(audit.entries[0]), _on_the_rest(audit)]
    said = dict.fromkeys(note for entry in audit.entries for note in entry.notes)
    for note in said:
        concerned = [entry.label for entry in audit.entries if note in entry.notes]
        sentences.append(f"{'All' if len(concerned) == len(audit.entries) else ', '.join(concerned)}: {note}.")
    return [sentence for sentence in sentences if sentence]


def _on_the_first(entry: Audited) -> str:
    if entry.consistent:
        return f"{entry.label} gives every client its target here."
    half = with_half(entry.best).size / entry.best.size
    over, under = (
        ", ".join(_client(entry, k) for k in side.tolist()) for side in (entry.over(SHOWN), entry.under(SHOWN))
    )
    return (
        f"{entry.label} puts {100 * entry.total_variation:.1f} % of the weight in the wrong place: half of all weight "
        f"goes to {100 * half:.0f} % of the clients. Most above target: {over}. Most below: {under}."
    )


def with_half(weights: np.ndarray) -> np.ndarray:
    """The fewest clients that have half of the weight together."""
    order = np.argsort(-weights, kind="stable")
    return order[: int(np.searchsorted(np.cumsum(weights[order]), 0.5 - 1e-12)) + 1]


def _client(entry: Audited, k: int) -> str:
    return f"client {k} ({entry.ratio[k]:.2f} times, there {100 * entry.available[k]:.0f} %)"


def _on_the_rest(audit: Audit) -> str:
    nearest = min(audit.entries, key=lambda entry: entry.total_variation)
    good = [entry.label for entry in audit.ranked() if entry.consistent]
    return who_is_fair(good, nearest.label, f"{100 * nearest.total_variation:.2f} %")


def who_is_fair(fair: list[str], nearest: str, off: str) -> str:
    """The strategies that an audit finds consistent, or else the one that comes nearest."""
    if fair:
        return f"Consistent here, the steadiest first: {', '.join(fair)}."
    return f"None is consistent here; {nearest} comes nearest, {off} off."


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
    """Write `audit.json`, `clients.parquet`, `weights.png` and the experiment; the folder is whole or absent."""
    folder = free_folder(out)
    with whole_or_absent(folder) as work:
        (work / "experiment.toml").write_text(experiment, encoding="utf-8")
        (work / "audit.json").write_text(json.dumps(audit_summary(audit), indent=2) + "\n", encoding="utf-8")
        audit.frame().write_parquet(work / "clients.parquet")
        effective_weights_figure(audit, title).save(work / "weights.png", scale_factor=PIXELS)
    return folder
