"""The cells of an experiment, computed by several processes that keep them in one run folder.

A cell is a point with all its seeds. The processes share the lock of the folder, and each has a lock of its own on
every cell of its share. Whoever finishes last has the folder alone and puts the run together.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnout.errors import FolderError, UserError
from turnout.files.whole import FileLock, free_folder
from turnout.simulator.simulate import Watcher
from turnout.workbench.experiment.former import up_to_date
from turnout.workbench.experiment.run import Progress, outcomes
from turnout.workbench.experiment.store import UNFINISHED
from turnout.workbench.experiment.sweep import Point, points
from turnout.workbench.experiment.unfinished import LOCK, START, Unfinished, at_work, is_barely_begun, remove_if_empty

PATIENCE = 10.0  # seconds for which a process may have the folder alone when another comes


@dataclass(frozen=True)
class Share:
    """The part of the cells that one of several jobs computes, counted from 1."""

    job: int
    jobs: int

    @classmethod
    def read(cls, text: str) -> Share:
        """The share of a text such as 2/8."""
        parts = re.fullmatch(r"0*([1-9]\d{0,8})/0*([1-9]\d{0,8})", text)
        if parts is None or int(parts[1]) > int(parts[2]):
            raise UserError(f"--cells {text}: give the number of the job and how many there are, from 1/8 to 8/8")
        return cls(int(parts[1]), int(parts[2]))

    def labels(self, grid: Sequence[Point]) -> tuple[str, ...]:
        """The labels of its cells: neighbours, which often run by one program."""
        if self.jobs > len(grid):
            raise UserError(
                f"--cells {self.job}/{self.jobs}: there are {len(grid)} cells: use at most {len(grid)} jobs"
            )
        first, last = ((self.job + shift) * len(grid) // self.jobs for shift in (-1, 0))
        return tuple(point.label for point in grid[first:last])


@contextmanager
def join_run(asked: Unfinished, share: Share) -> Iterator[Unfinished]:
    """Join the processes that compute the cells of an experiment in a folder, or be the first of them.

    If it fails before anything is kept and nobody else is there, nothing is left.
    """
    folder, labels = asked.folder, share.labels(points(asked.experiment))
    above = [place for place in (folder, *folder.parents) if not place.exists()]
    if not (is_barely_begun(folder) or (folder / UNFINISHED / START).is_file()):
        free_folder(folder)
    (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as locks:
            locks.enter_context(FileLock(folder / UNFINISHED / LOCK, shared=True, wait=PATIENCE))
            unfinished = _follow_the_first(asked)
            for label in labels:
                locks.enter_context(_cell(unfinished, label))
            yield unfinished
    except BaseException as error:
        if not asked.kept.is_empty:
            error.add_note(f"go on with the same command, or all the rest with: {asked.how_to_go_on}")
        _remove_if_alone(asked, above)
        raise


def compute_share(
    unfinished: Unfinished, share: Share, progress: Progress | None = None, watch: Watcher | None = None
) -> None:
    """Simulate and keep the cells of a share that are not kept yet."""
    grid = points(unfinished.experiment)
    for _ in outcomes(unfinished.experiment, grid, progress, watch, unfinished.kept, share.labels(grid)):
        pass


@contextmanager
def put_together(unfinished: Unfinished) -> Iterator[bool]:
    """Whether this process is the one to write the run: all cells are kept, and nobody else is there."""
    if num_kept(unfinished) < len(points(unfinished.experiment)):
        yield False
        return
    try:
        lock = FileLock(unfinished.folder / UNFINISHED / LOCK)
    except (FolderError, FileNotFoundError):  # another process does it, or has done it
        yield False
        return
    with lock, at_work(unfinished):
        yield True


def num_kept(unfinished: Unfinished) -> int:
    """How many cells are kept; all if the run is written."""
    grid = points(unfinished.experiment)
    kept = sum(unfinished.kept.has(point.label) for point in grid)
    return kept if (unfinished.folder / UNFINISHED / START).exists() else len(grid)


def _follow_the_first(asked: Unfinished) -> Unfinished:
    """What is asked, with the circumstances of whoever came first."""
    path = asked.folder / UNFINISHED / START
    if not path.exists():
        draft = f"start-{uuid.uuid4().hex[:8]}.json"  # two may be first at once
        asked.note(draft)
        os.replace(path.with_name(draft), path)
    try:
        start: dict[str, Any] = up_to_date(json.loads(path.read_bytes()))
        same = all(start[key] == value for key, value in asked.asked.items())
        origin = start["origin"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise FolderError(f"{path}: damaged or edited ({error}): begin anew in another folder") from error
    if not same:
        raise FolderError(f"{asked.folder}: holds the cells of another experiment or command: choose another folder")
    return replace(asked, origin=origin)


def _cell(unfinished: Unfinished, label: str) -> FileLock:
    try:
        return FileLock(unfinished.kept.lock(label))
    except FolderError as error:
        raise FolderError(f"{error}, at {label!r}: give every job another number") from None


def _remove_if_alone(unfinished: Unfinished, above: Sequence[Path]) -> None:
    try:
        with FileLock(unfinished.folder / UNFINISHED / LOCK):
            remove_if_empty(unfinished, above)
    except (FolderError, OSError):  # others are at work there, or it is gone
        return
