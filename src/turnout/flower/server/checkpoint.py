"""The whole state of a training in one file: arrays and a line of JSON, no pickle; whole or absent."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.wire.layout import Arrays

_FORMAT = 2
_HEADER, _PAST = "header", "past-"


def save(path: Path, driver: Driver, chronicle: Chronicle) -> None:
    """Write beside the place and rename: a crash leaves the file of the round before."""
    told, past = chronicle.state()
    header = {
        "format": _FORMAT,
        "strategy": type(driver.strategy).__name__,
        "facts": type(driver.settings.facts).__name__,
        "seed": driver.seed,
        "round": driver.t,
        "clients": list(driver.directory.names),
        "importance": list(driver.importance),
        "chronicle": told,
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.part")
    with draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{_HEADER: text}, **_numbered(driver), **_marked(past))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_folder(path.parent)


def resume(path: Path, driver: Driver, chronicle: Chronicle) -> bool:
    """Let a fresh driver go on from a file; false if there is none, a ValueError that says why if it does not fit."""
    if not path.exists():
        return False
    try:
        header, leaves, past = _read(path)
        _check(header, driver)
        fleet = dict(zip(header["clients"], header["importance"], strict=True))
        driver.restore(int(header["round"]), fleet, leaves)
        chronicle.restore(header["chronicle"], past)
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot go on from {path}: {error}; move the file away to begin anew") from error
    return True


def _numbered(driver: Driver) -> Arrays:
    """State by path; the names inside a file are numbers, since a path may hold any character."""
    leaves = driver.named_leaves()
    paths = np.frombuffer(json.dumps(list(leaves)).encode(), np.uint8)
    return {"paths": paths} | {f"leaf{number}": leaf for number, leaf in enumerate(leaves.values())}


def _marked(past: Arrays) -> Arrays:
    return {f"{_PAST}{name}": values for name, values in past.items()}


def _read(path: Path) -> tuple[dict[str, Any], Arrays, Arrays]:
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        header, paths = (json.loads(file[name].tobytes()) for name in (_HEADER, "paths"))
        leaves = {where: file[f"leaf{number}"] for number, where in enumerate(paths)}
        past = {name.removeprefix(_PAST): file[name] for name in file.files if name.startswith(_PAST)}
    return header, leaves, past


def _check(header: dict[str, Any], driver: Driver) -> None:
    wanted = {
        "format": _FORMAT,
        "strategy": type(driver.strategy).__name__,
        "facts": type(driver.settings.facts).__name__,
        "seed": driver.seed,
    }
    for name, value in wanted.items():
        if header[name] != value:
            raise ValueError(f"its {name} is {header[name]!r}, not {value!r}")


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself last, where the system lets a folder be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
