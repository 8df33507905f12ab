"""Checkpoints: the whole state of a training in one file, arrays and a line of JSON, no pickle; with a digest."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turnout.errors import FolderError
from turnout.files.archive import read_archive, write_archive
from turnout.files.integrity import UNREADABLE
from turnout.files.whole import FileLock
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.server.flow import Flow
from turnout.flower.server.inspector import Inspector
from turnout.flower.server.places import WORTHS, can_count
from turnout.flower.wire.layout import Arrays
from turnout.strategies.base import Strategy

log = logging.getLogger("turnout.flower")

_FORMAT = 3
_PAST, _WATCH, _WORK = "past-", "watch-", "work-"
_MOVES, _FIELD = "moves_alone", "moves_when_empty"
_MOST_ROUNDS = 2**31  # rounds are counted in 32 bits


def save(
    path: Path, driver: Driver, chronicle: Chronicle, inspector: Inspector | None = None, flow: Flow | None = None
) -> None:
    """Write the file; after a crash the previous one is still there."""
    events, past = chronicle.state()
    suspicions, lately = ({}, {}) if inspector is None else inspector.state()
    work, models = ({}, {}) if flow is None else flow.state()
    header = _identity(driver) | {
        "round": driver.t,
        "clients": list(driver.directory.by_place),
        "importance": list(driver.importance),
        "epoch": driver.epoch,
        "left": sorted(driver.left),
        _MOVES: driver.strategy.moves_alone,
        "chronicle": events,
        "watch": suspicions,
        "work": work,
    }
    others = {f"{_PAST}{name}": values for name, values in past.items()}
    others |= {f"{_WATCH}{name}": values for name, values in lately.items()}
    others |= {f"{_WORK}{name}": values for name, values in models.items()}
    write_archive(path, header, driver.named_leaves() | others)


def resume(
    path: Path, driver: Driver, chronicle: Chronicle, inspector: Inspector | None = None, flow: Flow | None = None
) -> bool:
    """Restore a fresh driver from a file; false if there is none, a ValueError with the reason if it does not fit."""
    if not path.exists():
        return False
    try:
        header, arrays = read_archive(path)
        for name, value in _identity(driver).items():
            if header[name] != value:
                raise ValueError(f"its {name} is {header[name]!r}, not {value!r}")
        leaves = {name: array for name, array in arrays.items() if not name.startswith((_PAST, _WATCH, _WORK))}
        past = _after(_PAST, arrays)
        _check(header, leaves, past)
        driver.restore(header["round"], list(zip(header["clients"], header["importance"], strict=True)), leaves)
        driver.epoch, driver.left = int(header.get("epoch", 0)), set(header.get("left", ()))
        chronicle.restore(header["chronicle"], past)
        _compare_empty_rounds(header, driver.strategy)
        if inspector is not None:
            inspector.restore(header.get("watch", {}), _after(_WATCH, arrays))
        if flow is not None and header.get("work"):
            flow.restore(header["work"], _after(_WORK, arrays))
    except (*UNREADABLE, AttributeError, OSError, RuntimeError) as error:
        raise ValueError(f"cannot go on from {path}: {error}; move the file away to begin anew") from error
    return True


def _compare_empty_rounds(header: Mapping[str, Any], strategy: Strategy[Any]) -> None:
    """Say so if the model did otherwise in empty rounds so far: it moved before there was a field for that."""
    moved, moves = header.get(_MOVES, hasattr(strategy, _FIELD)), strategy.moves_alone
    if moved != moves:
        did, does = ("moved", "stays") if moved else ("stayed", "moves")
        remedy = f": with {_FIELD}={moved} it goes on as before" if hasattr(strategy, _FIELD) else ""
        log.warning("in empty rounds of this training the model %s, but from now on it %s%s", did, does, remedy)


def _after(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _check(header: Mapping[str, Any], leaves: Arrays, past: Arrays) -> None:
    """Refuse numbers that no training can have, whoever wrote them."""
    rounds, names, importance = header["round"], header["clients"], header["importance"]
    if type(rounds) is not int or not 0 <= rounds < _MOST_ROUNDS:
        raise ValueError(f"its round is {rounds!r}, not a whole number from 0 to 2³¹")
    if not 0 <= header["seed"] < 2**32:
        raise ValueError(f"its seed is {header['seed']!r}, not below 2³²")
    taken = [name for name in names if name is not None]  # other places are vacant
    if len(set(taken)) != len(taken) or not all(isinstance(name, str) for name in taken):
        raise ValueError("its clients do not have different names")
    for name, value in zip(names, importance, strict=True):
        if value != 0 if name is None else not can_count(value):
            right = "0" if name is None else WORTHS
            raise ValueError(f"the importance of {name!r} is {value!r}, not {right}")
    for name, leaf in leaves.items():
        if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
            raise ValueError(f"state{name} is not finite everywhere")
    if len(shapes := {values.shape for values in past.values()}) > 1 or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"its records of rounds have the shapes {sorted(shapes)}, not one length")


def _identity(driver: Driver) -> dict[str, Any]:
    strategy, facts = (type(part).__name__ for part in (driver.strategy, driver.settings.facts))
    return {"format": _FORMAT, "strategy": strategy, "facts": facts, "seed": driver.seed}


@contextlib.contextmanager
def hold(checkpoint: Path | None) -> Iterator[None]:
    """Keep other servers off a checkpoint: two that write the same one in turns would undo each other's rounds."""
    if checkpoint is None:
        yield
        return
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(checkpoint.with_name(f"{checkpoint.name}.lock"))
    except FolderError:
        raise RuntimeError(f"another server is at work on {checkpoint}: end it first, or choose another file") from None
    with lock:
        yield
