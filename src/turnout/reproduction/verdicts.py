"""Findings of checks, the rules for a lead and for an order, and the overall verdict of a claim."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from turnout.statistics import Interval, mean, minus

Verdict = Literal["holds", "undecided", "does not hold", "not run"]


@dataclass(frozen=True)
class Finding:
    """One check: its statement, the paper's number, ours, and the verdict."""

    says: str
    paper: str
    ours: str
    verdict: Verdict


def conclusion(findings: Sequence[Finding]) -> dict[str, Any]:
    """The verdict on a claim and its checks, for JSON."""
    return {
        "verdict": overall([finding.verdict for finding in findings]),
        "checks": [asdict(finding) for finding in findings],
    }


def overall(verdicts: list[Verdict]) -> str:
    """The verdict on a claim, from those of its checks."""
    decided = [verdict for verdict in verdicts if verdict != "not run"]
    if not decided:
        return "not run"
    if all(verdict == "holds" for verdict in decided):
        return "holds"
    if "holds" in decided:
        return "holds in part"
    return "does not hold" if "does not hold" in decided else "undecided"


def verdict_of_lead(lead: np.ndarray) -> Verdict:
    """The verdict by the interval of the lead, or by every seed if there is only one or a lead is infinite."""
    if lead.size < 2 or not np.isfinite(lead).all():
        return "holds" if bool((lead > 0).all()) else "does not hold" if bool((lead <= 0).all()) else "undecided"
    interval = Interval.of(lead)
    return "holds" if interval.low > 0 else "does not hold" if interval.high < 0 else "undecided"


def in_order(values: list[np.ndarray], rising: bool, slack: float) -> bool:
    """Whether the last value is beyond the first, and no step goes back by more than the slack and the noise."""
    if not values[0].size:
        return False
    sign = 1 if rising else -1
    steps = [Interval.of(sign * minus(b, a)) for a, b in itertools.pairwise(values)]
    forth = mean(sign * minus(values[-1], values[0])) > 0
    return forth and all(step.mean >= -slack - 2 * step.standard_error for step in steps)
