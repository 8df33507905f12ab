"""One server at a time: two that write the same checkpoint in turns would undo each other's rounds."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

Start = TypeVar("Start", bound=Callable[..., Any])


@contextlib.contextmanager
def held(path: Path | None) -> Iterator[None]:
    """Keep every other server off a file; the system lets go when the process ends, however it ends.

    Where there are no such locks, nobody is kept off.
    """
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


def alone(start: Start) -> Start:
    """Let a strategy's `start` hold its checkpoint."""

    @functools.wraps(start)
    def holding(self: Any, *words: Any, **options: Any) -> Any:
        with held(self._books.checkpoint):
            return start(self, *words, **options)

    return holding  # pyright: ignore[reportReturnType]
