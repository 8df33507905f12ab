"""Reproductions in folders: read, checked again, used for other claims; and the finished panels of unfinished ones."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnout.errors import FolderError, UserError
from turnout.files.manifest import MANIFEST, EditedError, read_contents
from turnout.files.whole import FileLock, renew_folder, replace_folder, settle, whole_or_absent
from turnout.workbench.experiment.errors import ExperimentError, files_of
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.inputs import Inputs, changed_since
from turnout.workbench.experiment.kept import KeptPoints, identity_of
from turnout.workbench.experiment.trust import Code
from turnout.workbench.reproduction.claim import Claim, read_claim
from turnout.workbench.reproduction.curve_table import CURVES, Curve, parse_curves, read_curves, write_curves
from turnout.workbench.reproduction.verdicts import conclusion

Draw = Callable[[Path], Any]  # draws the figure of a folder into it
RESULT, CLAIM = "result.json", "claim.toml"

log = logging.getLogger("turnout")
Row = dict[str, Any]
KEPT = "panel.json"
WHOLE, POINTS = "panel", "points"  # folders inside that of a panel
ANEW = "run all of it anew (--again)"


def refresh(folder: Path, draw: Draw | None = None) -> dict[str, Any]:
    """Check a folder's curves again, by the shipped claim if its runs are still the same, and draw its figure.

    The files that change are replaced together when all are written.
    """
    with renew_folder(folder) as work:
        with files_of(folder, "a reproduction"):
            claim = current_claim(folder)
        return _write_refreshed(folder, claim, work, draw)


def _write_refreshed(runs: Path, claim: Claim, work: Path, draw: Draw | None) -> dict[str, Any]:
    """Write what a claim says of the runs of a folder into another one."""
    with files_of(runs, "a reproduction"):
        stored = read_result(runs)
        findings = claim.findings(read_curves(runs / CURVES), stored["skipped"])
        result = stored | claim.about | conclusion(findings) | {"command": claim.command}
    (work / "claim.toml").write_text(claim.to_toml(), encoding="utf-8")
    write_result(work, result)
    if draw is not None:
        shutil.copyfile(runs / CURVES, work / CURVES)
        draw(work)
    return result


def current_claim(folder: Path) -> Claim:
    """The claim of a folder: the shipped one of that name where its runs are still the same, else the stored one.

    The same: as it is shipped now, or with what was changed for these runs.
    """
    stored = read_stored_claim(folder)
    for settings, panels in (((), ()), (stored.settings, stored.panels_alone)):
        try:
            shipped = read_claim(stored.name, stored.profile, tuple(settings), tuple(panels), Code.UNREAD)
        except ExperimentError:
            continue
        if shipped.runs == stored.runs:
            return shipped
    return stored


def read_result(folder: Path) -> dict[str, Any]:
    """The stored result of a reproduction."""
    contents = read_contents(folder, (RESULT,))
    if RESULT not in contents:
        raise ExperimentError(f"{folder}: not the folder of a reproduction: it has no {RESULT}")
    try:
        result = json.loads(contents[RESULT])
        if not isinstance(result, dict) or not isinstance(result.get("skipped", {}), dict):
            raise ValueError("not the result of a claim")
    except (ValueError, RecursionError) as error:
        raise ExperimentError(
            f"{folder / RESULT}: damaged or torn ({error}): remove {folder}, and reproduce the claim again"
        ) from error
    return result


def is_reproduction(folder: Path) -> bool:
    """Whether the folder holds a reproduction, damaged or not."""
    return (folder / RESULT).is_file()


def reproductions(folder: Path, pattern: str) -> list[Path]:
    """Folders with a result by their path inside this one, without hidden ones, in which a result is being written."""
    paths = (file.parent for file in folder.glob(f"{pattern}/{RESULT}"))
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def is_done(claim: Claim, folder: Path) -> bool:
    """Whether a folder holds this claim, run as it would be now and with all its panels, and not damaged."""
    if not is_reproduction(folder):
        return False
    try:
        settle(folder)
        stored = read_result(folder)
        if stored["skipped"] or read_stored_claim(folder).runs != claim.runs:
            return False
        if (change := changed_since(stored.get("inputs", {}))) is not None:
            log.warning("%s since %s was written: its claim is run again", change, folder)
        return change is None
    except (UserError, LookupError) as error:
        log.warning("%s: it is not used", error)
        return False


def read_stored_claim(folder: Path) -> Claim:
    """The claim of a folder as it was run; nothing that it names is imported."""
    contents = read_contents(folder, (CLAIM,))
    if CLAIM not in contents:
        raise ExperimentError(f"{folder}: not the folder of a reproduction: it has no {CLAIM}")
    with files_of(folder, "a reproduction"):
        return read_claim(folder / CLAIM, code=Code.UNREAD)


def folder_of_same_runs(claim: Claim, results: Path) -> Path | None:
    """A finished reproduction in this folder, of another claim, whose runs are the very same."""
    return next((folder for folder in reproductions(results, "*") if is_done(claim, folder)), None)


def reproduce_from(claim: Claim, runs: Path, out: Path, draw: Draw | None = None) -> dict[str, Any]:
    """Write the folder of a claim from another claim's folder with the same runs: only the checks are new."""
    with replace_folder(out) as work:
        for file in runs.iterdir():
            if file.is_file() and file.name != MANIFEST and not file.name.startswith("."):
                shutil.copyfile(file, work / file.name)
        return _write_refreshed(runs, claim, work, draw)


def write_result(folder: Path, numbers: dict[str, Any]) -> None:
    """Write the result of a reproduction."""
    (folder / RESULT).write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def not_run(claim: Claim, reason: str) -> dict[str, Any]:
    """The result of a claim that could not run, for example without its data."""
    return claim.about | conclusion([]) | {"reason": reason}


@dataclass(frozen=True)
class Panel:
    """The curves of one panel, and how they were made."""

    curves: tuple[Curve, ...]
    experiment: str | None = None  # TOML, with the values that were chosen
    grid: tuple[Row, ...] = ()  # of the search, one row per point and seed
    chosen: dict[str, dict[str, Any]] | None = None  # by label, then key
    at_edge: dict[str, dict[str, Any]] | None = None
    seconds: float = 0.0
    inputs: Inputs | None = None  # files that it has read


class KeptPanels:
    """Finished panels of unfinished claims, in a hidden folder beside those of the claims.

    A panel is identified by everything that determines its runs, so every claim with the same panel finds it. An
    unfinished panel has its finished points. Nothing is kept if a claim writes no folder.
    """

    def __init__(self, out: Path | None) -> None:
        """Panels for the claim whose folder will be `out`."""
        self.folder = None if out is None else out.parent / ".panels"

    def find(self, asked: str) -> Panel | None:
        """The kept panel with the same runs; one that is damaged is not taken, and runs again."""
        folder = self._folder(asked)
        if folder is None:
            return None
        try:
            contents = read_contents(folder / WHOLE, (KEPT, CURVES))
            if KEPT not in contents:
                return None
            fields = json.loads(contents[KEPT])
        except EditedError as error:
            log.warning("%s: this panel is run again", error)
            return None
        if (change := changed_since(fields.get("inputs") or {})) is not None:
            raise FolderError(f"{change} since this was kept in {folder}: put the old file back, or {ANEW}")
        return Panel(tuple(parse_curves(contents[CURVES], CURVES)), **(fields | {"grid": tuple(fields["grid"])}))

    def keep(self, asked: str, panel: Panel) -> Panel:
        """Keep a finished panel instead of its points; the panel with the files that these have read."""
        folder = self._folder(asked)
        if folder is None:
            return panel
        read = [KeptPoints(place, "").inputs or {} for place in sorted((folder / POINTS).glob("*"))]
        panel = replace(panel, inputs={name: digest for inputs in read for name, digest in inputs.items()})
        shutil.rmtree(folder / WHOLE, ignore_errors=True)
        with whole_or_absent(folder / WHOLE) as work:
            write_curves(panel.curves, work / CURVES)
            fields = {name: value for name, value in vars(panel).items() if name != "curves"}
            (work / KEPT).write_text(json.dumps(fields), encoding="utf-8")
        shutil.rmtree(folder / POINTS, ignore_errors=True)
        return panel

    def points(self, asked: str, experiment: Experiment) -> KeptPoints | None:
        """Where the finished points of a panel are kept, of its search or of its runs."""
        if (folder := self._folder(asked)) is None:
            return None
        identity = identity_of(experiment)
        return KeptPoints(folder / POINTS / _name(identity), identity, instead=ANEW)

    @contextmanager
    def at_work(self, asked: str) -> Iterator[None]:
        """Run a panel in this process alone; a FolderError if another one does."""
        if (folder := self._folder(asked)) is None:
            yield
            return
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            yield

    def forget(self, asked: Iterable[str]) -> None:
        """Remove the panels of a finished claim."""
        for panel in asked:
            if (folder := self._folder(panel)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
        if self.folder is not None and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _folder(self, asked: str) -> Path | None:
        return None if self.folder is None else self.folder / _name(asked)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
