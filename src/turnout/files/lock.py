"""A lock on a file, which the system takes back when the process ends, however it ends."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is locked
    fcntl = None

from turnout.errors import FolderError


class FileLock:
    """Held from its making to `release`, by one process at a time; the file holds the number of that process.

    Where the file system has no locks, as some network drives, nothing is locked.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock, or raise a FolderError at once if another process has it."""
        self.path = path
        self._file = path.open("a+b")
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read(32).decode(errors="replace").strip()
            self._file.close()
            folder = path.parent
            raise FolderError(f"{folder}: another process ({owner or 'just begun'}) is writing there") from None
        except OSError:
            pass
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n".encode())
        self._file.flush()

    def release(self) -> None:
        """Give the lock back and remove its file."""
        if not self._file.closed:
            self.path.unlink(missing_ok=True)
            self._file.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of this file."""
    if not path.exists():
        return False
    try:
        FileLock(path).release()
    except FolderError:
        return True
    return False
