"""The whole state of a training in one file: arrays and a line of JSON, no pickle; whole or absent."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from turnout.files.whole import durable_file
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.server.guard import Watch
from turnout.flower.wire.layout import Arrays, read_archive, write_archive

_FORMAT = 2
_PAST, _WATCH = "past-", "watch-"


def save(path: Path, driver: Driver, chronicle: Chronicle, watch: Watch | None = None) -> None:
    """Write the file; after a crash the previous one is still there."""
    events, past = chronicle.state()
    suspicions, lately = ({}, {}) if watch is None else watch.state()
    header = _identity(driver) | {
        "round": driver.t,
        "clients": list(driver.directory.by_place),
        "importance": list(driver.importance),
        "chronicle": events,
        "watch": suspicions,
    }
    others = {f"{_PAST}{name}": values for name, values in past.items()}
    others |= {f"{_WATCH}{name}": values for name, values in lately.items()}
    with durable_file(path) as file:
        write_archive(file, header, driver.named_leaves(), others)


def resume(path: Path, driver: Driver, chronicle: Chronicle, watch: Watch | None = None) -> bool:
    """Restore a fresh driver from a file; false if there is none, a ValueError with the reason if it does not fit."""
    if not path.exists():
        return False
    try:
        with path.open("rb") as file:
            header, leaves, others = read_archive(file)
        for name, value in _identity(driver).items():
            if header[name] != value:
                raise ValueError(f"its {name} is {header[name]!r}, not {value!r}")
        fleet = list(zip(header["clients"], header["importance"], strict=True))
        driver.restore(int(header["round"]), fleet, leaves)
        chronicle.restore(header["chronicle"], _after(_PAST, others))
        if watch is not None:
            watch.restore(header.get("watch", {}), _after(_WATCH, others))
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot go on from {path}: {error}; move the file away to begin anew") from error
    return True


def _after(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _identity(driver: Driver) -> dict[str, Any]:
    strategy, facts = (type(part).__name__ for part in (driver.strategy, driver.settings.facts))
    return {"format": _FORMAT, "strategy": strategy, "facts": facts, "seed": driver.seed}
