"""The files that a piece of work opens, by the digest of their content.

Python tells of every file that it opens, whoever does it, so also of those that a user's own code reads. A file that a
library opens by itself, or that was read before and is still in memory, is told by `note`.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MADE = ""  # in the place of a digest: the work wrote this file itself, say the arrays of an archive
SOURCES = (".py", ".pyc")  # imports open them, or their compiled form, or neither

Digests = dict[str, str]  # by absolute path

_DEVICES = ("/dev/", "/proc/", "/sys/")
_INSTALLED = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")), str(Path(__file__).parents[1]))


class _Journal:
    """Every file that was opened while somebody listens: its path, and whether it was to be written."""

    listeners = 0
    is_hooked = False
    entries: list[tuple[str, bool]] = []  # noqa: RUF012 (one for the process)


@contextmanager
def files_opened() -> Generator[Digests]:
    """The digests of the files that are read inside, which are known when it ends.

    Files of installed packages are not among them, nor any that are gone by then.
    """
    if not _Journal.is_hooked:
        _Journal.is_hooked = True
        sys.addaudithook(_hear)  # for the rest of the process: it cannot be taken away
    digests: Digests = {}
    begin = len(_Journal.entries)
    _Journal.listeners += 1
    try:
        yield digests
    finally:
        _Journal.listeners -= 1
        entries = _Journal.entries[begin:]
        if not _Journal.listeners:
            _Journal.entries.clear()
    made = {path for path, is_written in entries if is_written}
    for path in dict.fromkeys(path for path, _ in entries):
        if is_data(path) and (found := digest_of(path)) is not None:
            digests[path] = MADE if path in made else found


def note(path: Path | str) -> None:
    """Tell of a file that is read in a way of which Python does not tell."""
    if _Journal.listeners:
        _Journal.entries.append((os.path.abspath(path), False))


def digest_of(path: Path | str) -> str | None:
    """The digest of a file's content; None if it is not a file, or cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def is_data(path: str) -> bool:
    """Whether a file is neither a source nor part of what is installed."""
    return not (path.endswith(SOURCES) or path.startswith(_DEVICES) or is_installed(path))


def is_installed(path: str) -> bool:
    """Whether a file belongs to Python, to turnout or to another package that was installed."""
    within = any(path.startswith(f"{folder}{os.sep}") for folder in _INSTALLED)
    return within or not {"site-packages", "dist-packages", "__pycache__"}.isdisjoint(Path(path).parts)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _Journal.listeners:
        return
    path, mode, flags = arguments
    if isinstance(path, str | bytes):  # not the number of a file that is open already
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR)) if mode is None else not set("wax+").isdisjoint(mode)
        _Journal.entries.append((os.path.abspath(os.fsdecode(path)), writes))
