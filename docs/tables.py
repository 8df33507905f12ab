"""Where stored numbers lie, and how tables of pages are written."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from turnout.statistics import Interval
from turnout.workbench.report.claims.claims_page import stored_results
from turnout.workbench.reproduction.curve_table import Measured
from turnout.workbench.reproduction.stored import read_result

ROOT = Path(__file__).parent.parent
NUMBERS = ROOT / "docs" / "results"
RESULTS = ROOT / "experiments" / "results"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def folder_of(claim: str) -> Path:
    """Where a claim's result is, the full size before the quick one."""
    return next(place for place, result in stored_results(RESULTS) if result["name"] == claim)


def size_of(claim: str) -> str:
    result = read_result(folder_of(claim))
    return f"`turnout reproduce {claim} --{result['profile']}`, {result['seeds']} seeds"


def final_accuracy(measured: Measured, panel: str, label: str) -> np.ndarray:
    return measured.curve(panel, label, "test_accuracy").values[:, -1]


def points(lead: Interval | None) -> str:
    return "–" if lead is None else f"{lead.mean:+.1f} [{lead.low:+.1f}, {lead.high:+.1f}]"
