"""A lock on a file, which the system takes back when the process ends, however it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is locked
    fcntl = None

from turnout.errors import FolderError


class FileLock:
    """Held from its creation to `release`, by one process at a time; the file holds the number of that process.

    With `shared`, by any number of processes that share it, while none has it alone. Where the file system has no
    locks, as some network drives, nothing is locked.
    """

    def __init__(self, path: Path, shared: bool = False, wait: float = 0.0) -> None:
        """Take the lock, or raise a FolderError if another process has it, at once or after so many seconds."""
        self.path, self._shared = path, shared
        until = time.monotonic() + wait
        while not self._take(patient=time.monotonic() < until):
            time.sleep(0.05)

    def _take(self, patient: bool) -> bool:
        """Try to take the lock; if it cannot be had, a FolderError unless one is patient."""
        path = self.path
        self._file = path.open("a+b")
        try:
            if fcntl is not None:
                fcntl.flock(self._file, (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                if not _is_at(path, self._file.fileno()):  # it was released, and so removed, since it was opened
                    self._file.close()
                    return False
        except BlockingIOError:
            if patient:
                self._file.close()
                return False
            self._file.seek(0)
            owner = self._file.read(32).decode(errors="replace").strip()
            self._file.close()
            who = f"another process ({owner})" if owner else "another process"
            raise FolderError(f"{path.parent}: {who} is writing there") from None
        except OSError:
            pass
        self._file.truncate(0)
        if not self._shared:
            self._file.write(f"{os.getpid()}\n".encode())
            self._file.flush()
        return True

    def release(self) -> None:
        """Give the lock back and remove its file, unless others may share it."""
        if not self._file.closed:
            if not self._shared:
                self.path.unlink(missing_ok=True)
            self._file.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of this file."""
    if not path.exists():
        return False
    try:
        FileLock(path).release()
    except FolderError:
        return True
    return False
