"""What a check found, when a lead or an order counts as one, and one word for all checks of a claim."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from turnout.statistics import Interval, mean, minus

Verdict = Literal["holds", "undecided", "does not hold", "not run"]


@dataclass(frozen=True)
class Finding:
    """One check: what it says, the paper's number, ours, and whether it is so."""

    says: str
    paper: str
    ours: str
    verdict: Verdict

    def as_table(self) -> dict[str, str]:
        return asdict(self)


def overall(verdicts: list[Verdict]) -> str:
    """One word for all checks of a claim."""
    decided = [verdict for verdict in verdicts if verdict != "not run"]
    if not decided:
        return "not run"
    if all(verdict == "holds" for verdict in decided):
        return "holds"
    if "holds" in decided:
        return "holds in part"
    return "does not hold" if "does not hold" in decided else "undecided"


def verdict_of_lead(lead: np.ndarray) -> Verdict:
    """Whether a lead is one: by its interval, or by every seed where some are infinite or there is one only."""
    if lead.size < 2 or not np.isfinite(lead).all():
        return "holds" if bool((lead > 0).all()) else "does not hold" if bool((lead <= 0).all()) else "undecided"
    found = Interval.of(lead)
    return "holds" if found.low > 0 else "does not hold" if found.high < 0 else "undecided"


def in_order(values: list[np.ndarray], rising: bool, slack: float) -> bool:
    """Whether no step goes back beyond the slack and noise, and the whole goes forth."""
    if not values[0].size:
        return False
    sign = 1 if rising else -1
    steps = [Interval.of(sign * minus(b, a)) for a, b in itertools.pairwise(values)]
    forth = mean(sign * minus(values[-1], values[0])) > 0
    return forth and all(step.mean >= -slack - 2 * step.standard_error for step in steps)
