"""Reproductions that were left in folders: found again, checked anew, looked at in another way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnout.experiment.errors import ExperimentError
from turnout.files.whole import free_folder, whole_or_absent
from turnout.reproduction.checks import all_findings
from turnout.reproduction.claim import Claim, read_claim
from turnout.reproduction.measured import CURVES, read_curves
from turnout.reproduction.verdicts import overall

Draw = Callable[[Path], Any]  # draws the figure of a folder into it


def refresh(folder: Path, draw: Draw | None = None) -> dict[str, Any]:
    """Check a folder's curves anew, by the shipped claim if that still runs the same, and draw its figure."""
    stored = read_result(folder)
    claim = current_claim(folder)
    findings = all_findings(claim.document["checks"], read_curves(folder / CURVES), stored["skipped"])
    renewed = (
        stored
        | claim.texts
        | {
            "name": claim.name,
            "command": claim.command,
            "verdict": overall([finding.verdict for finding in findings]),
            "checks": [finding.as_table() for finding in findings],
        }
    )
    (folder / "claim.toml").write_text(claim.to_toml(), encoding="utf-8")
    write_result(folder, renewed)
    if draw is not None:
        draw(folder)
    return renewed


def current_claim(folder: Path) -> Claim:
    """The claim of a folder: the shipped one of that name where its runs are still the same, else the stored one.

    The same: as it is shipped now, or with what was changed for these runs.
    """
    stored = read_claim(folder / "claim.toml")
    for settings, panels in (((), ()), (stored.settings, stored.panels_alone)):
        try:
            shipped = read_claim(stored.name, stored.profile, tuple(settings), tuple(panels))
        except ExperimentError:
            continue
        if shipped.runs == stored.runs:
            return shipped
    return stored


def read_result(folder: Path) -> dict[str, Any]:
    """What a reproduction came to."""
    try:
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{folder}: not the folder of a reproduction: it has no result.json") from error


def is_done(claim: Claim, folder: Path) -> bool:
    """Whether a folder holds this claim, run as it would be now and with all its panels."""
    if not (folder / "result.json").is_file() or read_result(folder)["skipped"]:
        return False
    return read_claim(folder / "claim.toml").runs == claim.runs


def folder_of_same_runs(claim: Claim, results: Path) -> Path | None:
    """A finished reproduction in this folder, of another claim, whose runs are the very same."""
    found = sorted(file.parent for file in results.glob("*/result.json"))
    return next((folder for folder in found if is_done(claim, folder)), None)


def reproduce_from(claim: Claim, runs: Path, out: Path, draw: Draw | None = None) -> dict[str, Any]:
    """Leave the folder of a claim whose runs another one's folder holds: only looking at them is new."""
    with whole_or_absent(free_folder(out)) as work:
        shutil.copytree(runs, work, dirs_exist_ok=True)
        (work / "claim.toml").write_text(claim.to_toml(), encoding="utf-8")
        return refresh(work, draw)


def write_result(folder: Path, numbers: dict[str, Any]) -> None:
    """Leave what a reproduction came to."""
    (folder / "result.json").write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def not_run(claim: Claim, reason: str) -> dict[str, Any]:
    """The result of a claim that could not run, as where its data are missing."""
    return {
        "name": claim.name,
        "profile": claim.profile,
        **claim.texts,
        "verdict": "not run",
        "checks": [],
        "reason": reason,
    }
