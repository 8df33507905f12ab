"""Finished points of an unfinished run, one file each, and the state of what is under way: they are not run again.

`turnout run`, `turnout tune` and `turnout reproduce` all keep their points in this way.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from turnout.errors import FolderError
from turnout.files.archive import Arrays, from_bytes, write_archive
from turnout.files.manifest import EditedError
from turnout.files.whole import durable_file
from turnout.simulator.attendance import Attendance
from turnout.simulator.history import History
from turnout.workbench.experiment.circumstances import circumstances
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.inputs import Inputs, changed_since, differing

NUMERIC = ("turnout", "jax", "jaxlib", "equinox", "optax", "numpy")  # packages whose version may change the numbers
BY_NAME = ("metrics", "records", "clients")  # fields of a history that hold arrays by name
OPTIONAL = ("target", "pi", "lam", "duration", "ages")  # fields that are an array or None

INPUTS = "inputs.json"
ANEW = "begin anew in another folder"

log = logging.getLogger("turnout")


def identity_of(experiment: Experiment) -> str:
    """Everything that determines the numbers of an experiment: the document, the device, and versions."""
    return identity_of_document(experiment.document())


def identity_of_document(document: dict[str, Any]) -> str:
    """The same for an experiment that is still a document, as another process has written it."""
    about = circumstances()
    versions = {name: about["versions"][name] for name in NUMERIC}
    return json.dumps([document, about["device"], versions], sort_keys=True)


@dataclass(frozen=True)
class KeptPoint:
    """A finished point as it was kept; the models are leaves in the order of their tree."""

    history: History
    rate_factor: float
    seconds: float  # from the point before to this one


class KeptPoints:
    """The points of one experiment in a folder of their own."""

    def __init__(self, folder: Path, asked: str, place: Path | None = None, instead: str = ANEW) -> None:
        """Points in this folder; `place` is where relative paths begin, `instead` how to begin anew."""
        self.folder, self.place = folder, place
        self._asked = hashlib.sha256(asked.encode()).hexdigest()
        self._instead = instead

    @property
    def inputs(self) -> Inputs | None:
        """The files that the points read; None if nobody has noted them yet."""
        path = self.folder / INPUTS
        try:
            return dict(json.loads(path.read_bytes())) if path.exists() else None
        except (ValueError, TypeError, RecursionError) as error:
            raise FolderError(f"{path}: damaged or edited ({error}): {self._instead}") from error

    def check_inputs(self) -> None:
        """Refuse to go on if a file has changed that kept points have read."""
        if not self.is_empty and (before := self.inputs):
            self._refuse(changed_since(before, self.place))

    def bind(self, inputs: Inputs) -> None:
        """Note the files that points read; they are refused if points are kept already that read others."""
        before = self.inputs
        if before is not None and (not self.is_empty or differing(before, inputs) is None):
            self._refuse(differing(before, inputs))
            return
        with durable_file(self.folder / INPUTS) as file:
            file.write(json.dumps(inputs).encode())

    def _refuse(self, change: str | None) -> None:
        if change is not None:
            begun = f"since this was begun in {self.folder}"
            raise FolderError(f"{change} {begun}: put the old file back, or {self._instead}")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was kept yet."""
        return not self.folder.is_dir() or not any(self.folder.rglob("*.npz"))

    def has(self, label: str) -> bool:
        """Whether the point of this label was kept, if only by its file."""
        return self._path(label).exists()

    def lock(self, label: str) -> Path:
        """The file that a process locks while it computes the point of this label, beside others at work."""
        return self._path(label).with_suffix(".lock")

    def find(self, label: str) -> KeptPoint | None:
        """The kept point of this label; one that is damaged is not taken, and its strategy runs again."""
        path = self._path(label)
        if not path.exists():
            return None
        try:
            header, arrays = self._read(path.read_bytes(), path)
            self._check_read(header.get("inputs"), path)
            return KeptPoint(_history(header, arrays), header["rate_factor"], header["seconds"])
        except EditedError as error:
            log.warning("%s: %s is run again", error, label)
            return None

    def keep(self, label: str, point: KeptPoint) -> None:
        """Write a finished point; it is on the disk when this returns."""
        plain, arrays = _plain(point.history)
        own = {"asked": self._asked, "label": label, "rate_factor": point.rate_factor, "seconds": point.seconds}
        own |= {"inputs": self.inputs}
        write_archive(self._path(label), own | plain, arrays)

    def content(self, label: str) -> bytes:
        """The kept point of this label as it is on the disk."""
        return self._path(label).read_bytes()

    def keep_content(self, label: str, content: bytes) -> None:
        """Keep a point that was computed elsewhere; an EditedError if it is damaged or not of this experiment."""
        header, _ = self._read(content, label)
        self.bind(header["inputs"] or {})
        with durable_file(self._path(label)) as file:
            file.write(content)

    def _check_read(self, read: Inputs | None, path: Path) -> None:
        """Refuse a point that has read other files than those that are noted, or is of a version that noted none."""
        bound = self.inputs
        if read != bound and (read is None or bound is None or differing(bound, read) is not None):
            raise EditedError(f"{path}: has read other files")

    def _read(self, content: bytes, path: Path | str) -> tuple[dict[str, Any], Arrays]:
        header, arrays = from_bytes(content, path)
        if header["asked"] != self._asked:
            raise EditedError(f"{path}: belongs to another experiment, device or version")
        return header, arrays

    def states(self, labels: Iterable[str]) -> Path:
        """The folder for the states of the points that run as one program."""
        return self.folder / f"states-{_name(self._asked + chr(10).join(labels))}"

    def drop_states(self, labels: Iterable[str]) -> None:
        """Remove the states of points that are finished."""
        shutil.rmtree(self.states(labels), ignore_errors=True)

    def _path(self, label: str) -> Path:
        return self.folder / f"point-{_name(label)}.npz"


def kept_histories(folder: Path) -> Iterator[tuple[str, History]]:
    """Label and history of every point in a folder, the first that was finished first, whatever was asked of it."""
    for path in sorted(folder.glob("point-*.npz"), key=lambda path: path.stat().st_mtime):
        with suppress(EditedError, FileNotFoundError):  # of a run that has ended meanwhile
            header, arrays = from_bytes(path.read_bytes(), path)
            yield header["label"], _history(header, arrays)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(history: History) -> tuple[dict[str, Any], Arrays]:
    """A history as JSON and arrays."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(history.params)]
    arrays = {"evaluated": history.evaluated} | {f"params {i}": leaf for i, leaf in enumerate(leaves)}
    for kind in BY_NAME:
        arrays |= {f"{kind} {name}": values for name, values in getattr(history, kind).items()}
    arrays |= {name: values for name in OPTIONAL if (values := getattr(history, name)) is not None}
    attendance = history.attendance
    if attendance is not None:
        arrays |= {f"attendance {name}": getattr(attendance, name) for name in ("rounds", "clients", "states")}
    header = {"seeds": list(history.seeds), "rounds": history.rounds, "of_a_run": history.seconds}
    header |= {} if history.tick_seconds is None else {"tick_seconds": history.tick_seconds}
    return header | {"watched": None if attendance is None else attendance.seed, "leaves": len(leaves)}, arrays


def _history(header: dict[str, Any], arrays: Arrays) -> History:
    by_name = {
        kind: {name.partition(" ")[2]: values for name, values in arrays.items() if name.startswith(f"{kind} ")}
        for kind in (*BY_NAME, "attendance")
    }
    watched = by_name["attendance"]
    return History(
        seeds=tuple(header["seeds"]),
        rounds=header["rounds"],
        evaluated=arrays["evaluated"],
        params=[arrays[f"params {i}"] for i in range(header["leaves"])],
        attendance=None if header["watched"] is None else Attendance(header["watched"], **watched),
        seconds=header["of_a_run"],
        tick_seconds=header.get("tick_seconds"),
        metrics=by_name["metrics"],
        records=by_name["records"],
        clients=by_name["clients"],
        **{name: arrays[name] for name in OPTIONAL if name in arrays},
    )
