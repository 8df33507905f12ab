"""What a check found, and one word for all checks of a claim."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

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
