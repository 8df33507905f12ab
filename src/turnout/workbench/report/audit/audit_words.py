"""An audit in plain words."""

from __future__ import annotations

import numpy as np

from turnout.auditor import Audit, Audited

SHOWN = 3  # clients named on either side


def audit_words(audit: Audit) -> list[str]:
    """What a reader should take away."""
    first = audit.entries[0]
    sentences = [f"{finding(first)} {extremes(first)}".strip(), _on_the_rest(audit)]
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
        ", ".join(_client(entry, k) for k in side.tolist()) for side in (entry.over(SHOWN), entry.under(SHOWN))
    )
    return f"Most above target: {over}. Most below: {under}."


def with_half(weights: np.ndarray) -> np.ndarray:
    """The fewest clients that together have half of the weight."""
    order = np.argsort(-weights, kind="stable")
    return order[: int(np.searchsorted(np.cumsum(weights[order]), 0.5 - 1e-12)) + 1]


def _client(entry: Audited, k: int) -> str:
    return f"client {entry.name(k)} ({entry.ratio[k]:.2f} times, there {100 * entry.available[k]:.0f} %)"


def _on_the_rest(audit: Audit) -> str:
    nearest = min(audit.entries, key=lambda entry: entry.total_variation)
    good = [entry.label for entry in audit.ranked() if entry.consistent]
    return who_is_fair(good, nearest.label, f"{100 * nearest.total_variation:.2f} %")


def who_is_fair(fair: list[str], nearest: str, off: str) -> str:
    """The strategies that an audit finds consistent, or else the one that comes nearest."""
    if fair:
        return f"Consistent here, the steadiest first: {', '.join(fair)}."
    return f"None is consistent here; {nearest} comes nearest, {off} off."
