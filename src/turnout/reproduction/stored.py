"""Reproductions in folders: read, check again, and use for other claims with the same runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnout.experiment.errors import ExperimentError
from turnout.files.whole import free_folder, whole_or_absent
from turnout.reproduction.claim import Claim, read_claim
from turnout.reproduction.measured import CURVES, read_curves
from turnout.reproduction.verdicts import conclusion

Draw = Callable[[Path], Any]  # draws the figure of a folder into it


def refresh(folder: Path, draw: Draw | None = None) -> dict[str, Any]:
    """Check a folder's curves again, by the shipped claim if its runs are still the same, and draw its figure."""
    stored = read_result(folder)
    claim = current_claim(folder)
    findings = claim.findings(read_curves(folder / CURVES), stored["skipped"])
    renewed = stored | claim.about | conclusion(findings) | {"command": claim.command}
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
    """The stored result of a reproduction."""
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
    folders = sorted(file.parent for file in results.glob("*/result.json"))
    return next((folder for folder in folders if is_done(claim, folder)), None)


def reproduce_from(claim: Claim, runs: Path, out: Path, draw: Draw | None = None) -> dict[str, Any]:
    """Write the folder of a claim from another claim's folder with the same runs: only the checks are new."""
    with whole_or_absent(free_folder(out)) as work:
        shutil.copytree(runs, work, dirs_exist_ok=True)
        (work / "claim.toml").write_text(claim.to_toml(), encoding="utf-8")
        return refresh(work, draw)


def write_result(folder: Path, numbers: dict[str, Any]) -> None:
    """Write the result of a reproduction."""
    (folder / "result.json").write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def not_run(claim: Claim, reason: str) -> dict[str, Any]:
    """The result of a claim that could not run, for example without its data."""
    return claim.about | conclusion([]) | {"reason": reason}
