"""The whole state of a training in one file: arrays and a line of JSON, no pickle; whole or absent, with a digest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turnout.files.archive import read_archive, write_archive
from turnout.files.integrity import UNREADABLE
from turnout.files.manifest import EditedError
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.wire import archive
from turnout.flower.wire.layout import Arrays

_FORMAT = 3
_WITHOUT_DIGEST = 2  # the format before, which is still read
_PAST = "past-"
_MOST_ROUNDS = 2**31  # rounds are counted in 32 bits


def save(path: Path, driver: Driver, chronicle: Chronicle) -> None:
    """Write the file; after a crash the previous one is still there."""
    events, past = chronicle.state()
    header = _identity(driver) | {
        "round": driver.t,
        "clients": list(driver.directory.names),
        "importance": list(driver.importance),
        "chronicle": events,
    }
    write_archive(path, header, driver.named_leaves() | {f"{_PAST}{name}": values for name, values in past.items()})


def resume(path: Path, driver: Driver, chronicle: Chronicle) -> bool:
    """Restore a fresh driver from a file; false if there is none, a ValueError with the reason if it does not fit."""
    if not path.exists():
        return False
    try:
        header, leaves, past = _read(path)
        for name, value in _identity(driver).items():
            if header[name] != value:
                raise ValueError(f"its {name} is {header[name]!r}, not {value!r}")
        _check(header, leaves, past)
        driver.restore(header["round"], dict(zip(header["clients"], header["importance"], strict=True)), leaves)
        chronicle.restore(header["chronicle"], past)
    except (*UNREADABLE, AttributeError, OSError, RuntimeError) as error:
        raise ValueError(f"cannot go on from {path}: {error}; move the file away to begin anew") from error
    return True


def _read(path: Path) -> tuple[dict[str, Any], Arrays, Arrays]:
    """Header, leaves of the state, and records of past rounds."""
    try:
        header, arrays = read_archive(path)
    except EditedError as damaged:
        with path.open("rb") as file:
            header, leaves, others = archive.read(file)
        if header["format"] != _WITHOUT_DIGEST:
            raise damaged
        header["format"], arrays = _FORMAT, leaves | others
    past = {name.removeprefix(_PAST): values for name, values in arrays.items() if name.startswith(_PAST)}
    return header, {name: values for name, values in arrays.items() if not name.startswith(_PAST)}, past


def _check(header: Mapping[str, Any], leaves: Arrays, past: Arrays) -> None:
    """Refuse numbers that no training can have, whoever wrote them."""
    rounds, names, importance = header["round"], header["clients"], header["importance"]
    if type(rounds) is not int or not 0 <= rounds < _MOST_ROUNDS:
        raise ValueError(f"its round is {rounds!r}, not a whole number from 0 to 2³¹")
    if not 0 <= header["seed"] < 2**32:
        raise ValueError(f"its seed is {header['seed']!r}, not below 2³²")
    if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
        raise ValueError("its clients do not have different names")
    for name, value in zip(names, importance, strict=True):
        if not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
            raise ValueError(f"the importance of {name!r} is {value!r}, not positive")
    for name, leaf in leaves.items():
        if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
            raise ValueError(f"state{name} is not finite everywhere")
    if len(shapes := {values.shape for values in past.values()}) > 1 or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"its records of rounds have the shapes {sorted(shapes)}, not one length")


def _identity(driver: Driver) -> dict[str, Any]:
    strategy, facts = (type(part).__name__ for part in (driver.strategy, driver.settings.facts))
    return {"format": _FORMAT, "strategy": strategy, "facts": facts, "seed": driver.seed}
