"""A run folder whose run is under way: what was asked, what is finished, and who is at work.

The folder belongs to one process from the start. It holds `unfinished/` until everything is written; if the process
ends before, `--resume` goes on with what is there.
"""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnout.errors import FolderError
from turnout.files.whole import FileLock, durable_file, free_folder, is_locked
from turnout.simulator.simulate import Watcher
from turnout.workbench.experiment.circumstances import circumstances
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.former import up_to_date
from turnout.workbench.experiment.inputs import in_folder
from turnout.workbench.experiment.kept import KeptPoints, identity_of
from turnout.workbench.experiment.progress import LOCK, PROGRESS, START, ProgressNotes
from turnout.workbench.experiment.run import Progress, Run, run_points
from turnout.workbench.experiment.store import UNFINISHED, renew
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.trust import Code, code_of, in_working_folder, names_code


@dataclass(frozen=True)
class Unfinished:
    """A run that was begun, in its folder."""

    folder: Path
    command: str  # run or tune
    experiment: Experiment  # to be simulated
    options: dict[str, Any] = field(default_factory=dict)  # of the command
    modules: str | None = None  # the folder where modules of the user were found
    origin: dict[str, Any] = field(default_factory=circumstances)
    place: Path = field(default_factory=Path.cwd)  # where it was begun: relative paths in it begin there

    @property
    def kept(self) -> KeptPoints:
        """The points that are finished."""
        return KeptPoints(self.folder / UNFINISHED, identity_of(self.experiment), self.place)

    def run(self, progress: Progress | None = None, watch: Watcher | None = None) -> Run:
        """Simulate what is not finished, and write the run into the folder."""
        noted = ProgressNotes(self.folder / UNFINISHED / PROGRESS, progress, watch)
        finished = run_points(self.experiment, points(self.experiment), noted.progress, noted.watch, self.kept)
        inputs = self.kept.inputs
        finished = replace(finished, origin=self.origin, notes={"inputs": inputs} if inputs else {})
        renew(finished, self.folder)
        return finished

    @property
    def asked(self) -> dict[str, Any]:
        """What `start.json` says of the task, as JSON has it."""
        start = {"command": self.command, "experiment": self.experiment.document(), "options": self.options}
        return json.loads(json.dumps(start))

    def note(self, name: str) -> None:
        """Write down what is asked, under this name."""
        with durable_file(self.folder / UNFINISHED / name) as file:
            where = {"modules": self.modules, "place": str(self.place)}
            file.write(json.dumps(self.asked | where | {"origin": self.origin}).encode())

    @property
    def how_to_go_on(self) -> str:
        """The command that goes on."""
        trust = [] if in_working_folder(self.folder) or not names_code(self.experiment.document()) else ["--trust"]
        return shlex.join(["turnout", self.command, "--resume", str(self.folder), *trust])

    @property
    def advice(self) -> str:
        """How to go on, in words."""
        return f"go on with: {self.how_to_go_on}"


@contextmanager
def begin_run(asked: Unfinished, numbered: bool = False) -> Iterator[Unfinished]:
    """Claim the folder of a run and note what is asked; with `numbered`, another folder if that one exists.

    If it fails before anything is kept, nothing is left.
    """
    above = [place for place in (asked.folder, *asked.folder.parents) if not place.exists()]
    folder, lock = _claim(asked.folder, numbered)
    unfinished = replace(asked, folder=folder)
    try:
        unfinished.note(START)
        with at_work(unfinished):
            yield unfinished
    except BaseException:
        remove_if_empty(unfinished, above)
        raise
    finally:
        lock.release()


def remove_if_empty(unfinished: Unfinished, above: Iterable[Path]) -> None:
    """Remove the folder if nothing is kept in it, and those above it that were made for it."""
    if unfinished.kept.is_empty:
        shutil.rmtree(unfinished.folder / UNFINISHED, ignore_errors=True)
        for place in (unfinished.folder, *above):
            with suppress(OSError):
                place.rmdir()


@contextmanager
def resume_run(folder: Path, command: str, trust: bool = False) -> Iterator[Unfinished]:
    """Go on with the run that was begun in a folder by the same command."""
    unfinished = read_unfinished(folder, trust)
    if unfinished.command != command:
        raise FolderError(f"{folder}: was begun by another command: {unfinished.how_to_go_on}")
    with FileLock(folder / UNFINISHED / LOCK), at_work(unfinished):
        yield unfinished


@contextmanager
def at_work(unfinished: Unfinished) -> Iterator[None]:
    """Remove what was kept at the end; an error says how to go on."""
    try:
        yield
    except BaseException as error:
        if not unfinished.kept.is_empty:
            error.add_note(unfinished.advice)
        raise
    shutil.rmtree(unfinished.folder / UNFINISHED, ignore_errors=True)


def modules_of(folder: Path) -> list[Path]:
    """Where the user's modules were found when the run of a folder was begun; nothing if it does not say."""
    try:
        start = json.loads((folder / UNFINISHED / START).read_bytes())
        return [_place_of(start), *([Path(start["modules"])] if isinstance(start["modules"], str) else [])]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _place_of(start: dict[str, Any]) -> Path:
    """Where a run was begun; the present folder if that is not known, or is gone."""
    place = start.get("place")
    return Path(place) if isinstance(place, str) and Path(place).is_dir() else Path.cwd()


def read_unfinished(folder: Path, trust: bool = False) -> Unfinished:
    """The unfinished run of a folder; code that it names counts as in a file that is run."""
    path = folder / UNFINISHED / START
    if not path.is_file():
        done = (folder / "run.json").is_file() or (folder / "tuning.json").is_file()
        why = "is finished" if done else "holds no unfinished run"
        raise FolderError(f"{folder}: {why}: there is nothing to resume")
    try:
        start = up_to_date(json.loads(path.read_bytes()))
        document, place = start["experiment"], _place_of(start)
        code = max(code_of(path, document, trust), code_of(place, document, trust), key=list(Code).index)
        KeptPoints(folder / UNFINISHED, "", place).check_inputs()  # before anything of the user is imported
        with in_folder(place):
            experiment = Experiment.read(document, code)
        if place != Path.cwd():
            folder = folder.absolute()  # also while relative paths begin elsewhere
        rest = start["options"], start["modules"], start["origin"], place
        return Unfinished(folder, start["command"], experiment, *rest)
    except ExperimentError as error:
        raise ExperimentError(f"{path}: {error}") from error
    except FolderError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FolderError(f"{path}: damaged or edited ({error}): begin anew in another folder") from error


def _claim(out: Path, numbered: bool) -> tuple[Path, FileLock]:
    """The folder, or one with the next free number, which this process alone writes while it has the lock."""
    for number in itertools.count(2):
        folder = out if number == 2 else out.with_name(f"{out.name}-{number - 1}")
        try:
            return folder, _take(folder)
        except FolderError:
            if not numbered or not folder.exists():
                raise
    raise AssertionError("there is a free number")


def _take(folder: Path) -> FileLock:
    """The lock of a free folder, which has `unfinished/` from now on, and nothing else yet."""
    if not is_barely_begun(folder):
        if (folder / UNFINISHED / START).exists():
            if is_locked(folder / UNFINISHED / LOCK):
                raise FolderError(f"{folder}: another process is running there: choose another folder")
            raise FolderError(f"{folder}: holds an unfinished run: go on (--resume {folder}), or choose another folder")
        free_folder(folder)
    (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / UNFINISHED / LOCK)
    if not is_barely_begun(folder):  # another process was faster
        lock.release()
        raise FolderError(f"{folder}: exists already: choose another folder, or remove it")
    return lock


def is_barely_begun(folder: Path) -> bool:
    """Whether a process has taken the folder and done nothing more."""
    inside = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    return inside == {UNFINISHED} and not (folder / UNFINISHED / START).exists()
