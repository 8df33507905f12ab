"""What the pages take from the stored runs of claims."""

from pathlib import Path

import numpy as np
from tables import ROOT

from turnout.statistics import Interval
from turnout.workbench.report.claims.claims_page import stored_results
from turnout.workbench.reproduction.measures import Measured
from turnout.workbench.reproduction.stored import read_result

RESULTS = ROOT / "experiments" / "results"


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
