"""One server per checkpoint: two that write the same one in turns would undo each other's rounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextlib.contextmanager
def held(path: Path | None) -> Iterator[None]:
    """Lock a file against other servers until the process ends, however it ends; on Windows nothing is locked."""
    if path is None or fcntl is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another server is at work on {path}: end it first, or choose another file") from None
        yield
