"""Folders and files that are whole or absent: written under a temporary name in the same folder, then renamed.

And a lock on a file, which the system takes back when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from types import TracebackType

from turnout.errors import FolderError
from turnout.files.manifest import MANIFEST, RENEWAL, EditedError, Manifest

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is locked
    fcntl = None

LOCK = ".lock"  # in a folder that is being written


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


def free_folder(out: str | Path) -> Path:
    """The folder to write to; a FolderError if it is not empty or cannot be written."""
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderError(f"{folder}: exists already: choose another folder, or remove it")
    above = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise FolderError(f"{folder}: cannot be written, since {above} cannot: choose another folder (--out)")
    return folder


@contextmanager
def create_folder(folder: Path) -> Generator[None]:
    """Create a folder and those above it; if anything fails, those that were created and are empty are removed."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for place in new:
            with suppress(OSError):
                place.rmdir()
        raise


@contextmanager
def whole_or_absent(folder: Path) -> Generator[Path]:
    """A temporary folder that is renamed to `folder` only when everything is done, and on the disk, with a manifest."""
    with create_folder(folder.parent), _draft(folder.parent, f".{folder.name}-") as work:
        yield work
        (work / MANIFEST).write_text(Manifest.of(work).text(), encoding="utf-8")
        _sync(work)
        if folder.exists():  # empty, and Windows does not rename onto a folder
            folder.rmdir()
        os.replace(work, folder)
        (folder / LOCK).unlink()
        sync_folder(folder.parent)


@contextmanager
def renew_folder(folder: Path, everything: bool = False) -> Generator[Path]:
    """A temporary folder whose files replace those of `folder` of the same name, all together.

    Its files are whole and on the disk before the first is replaced, and `read_contents` reads them from that moment
    on. A process that is killed while it replaces them leaves that to the next one. The manifest follows; a folder
    without one gets none, as nothing is known of its other files. With `everything`, files that were listed before and
    are not written now are removed.
    """
    settle(folder)
    with _draft(folder, ".draft-") as work:
        yield work
        settle(folder)  # of another process, meanwhile
        own = Manifest.of(work)
        listed = _listed_before(folder) if everything else Manifest.read(folder)
        is_new = not any(file.is_file() and not file.name.startswith(".") for file in folder.iterdir())
        if listed is not None and not everything:
            own = Manifest(listed.files | own.files)
        if is_new or listed is not None:
            (work / MANIFEST).write_text(own.text(), encoding="utf-8")
        _sync(work)
        os.replace(work, folder / RENEWAL)
        sync_folder(folder)
        settle(folder)


@contextmanager
def replace_folder(folder: Path) -> Generator[Path]:
    """A temporary folder that becomes `folder`, or replaces everything in it that a manifest lists."""
    holds = folder.is_dir() and any(folder.iterdir())
    with renew_folder(folder, everything=True) if holds else whole_or_absent(folder) as work:
        yield work


def _listed_before(folder: Path) -> Manifest:
    """The manifest of a folder that is to be replaced; it is written first if there is none, or a damaged one."""
    with suppress(EditedError):
        if (listed := Manifest.read(folder)) is not None:
            return listed
    listed = Manifest.of(folder)
    with durable_file(folder / MANIFEST) as file:
        file.write(listed.text().encode())
    return listed


def settle(folder: Path) -> None:
    """Replace files by those of a renewal, if there is one whose process was killed before it could."""
    renewal = folder / RENEWAL
    if not renewal.is_dir():
        return
    names = sorted(file.name for file in renewal.iterdir() if file.name not in (LOCK, MANIFEST))
    with suppress(FileNotFoundError, EditedError):  # without manifests, nothing is removed
        before, after = (
            Manifest.parse((place / MANIFEST).read_bytes(), place / MANIFEST) for place in (folder, renewal)
        )
        for name in before.files.keys() - after.files.keys():
            (folder / name).unlink(missing_ok=True)
    for name in (*names, MANIFEST):
        with suppress(FileNotFoundError):  # another process does the same
            (renewal / name).replace(folder / name)
    shutil.rmtree(renewal, ignore_errors=True)
    sync_folder(folder)


@contextmanager
def _draft(parent: Path, prefix: str) -> Generator[Path]:
    """A hidden folder to write in, removed unless it was renamed; those that killed processes left are removed."""
    for left in parent.iterdir():
        if re.fullmatch(re.escape(prefix) + "[0-9a-f]{8}", left.name) and not is_locked(left / LOCK):
            shutil.rmtree(left, ignore_errors=True)
    work = parent / f"{prefix}{uuid.uuid4().hex[:8]}"
    work.mkdir()
    lock = FileLock(work / LOCK)
    try:
        yield work
    except BaseException as error:
        shutil.rmtree(work, ignore_errors=True)
        _raise_with_path(error, parent)
        raise
    finally:
        lock.release()


def _raise_with_path(error: BaseException, path: Path) -> None:
    """Raise an error of the system again with a path, if it does not say what it is about, as that of a full disk."""
    if isinstance(error, OSError) and error.filename is None:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error


def _sync(work: Path) -> None:
    """Make sure that all files of a folder are on the disk."""
    for file in work.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    sync_folder(work)


@contextmanager
def whole_file(out: Path) -> Generator[Path]:
    """A temporary file that is renamed to `out`, and replaces it, only when everything is done.

    If the folder of the file has a manifest, that lists the new file.
    """
    if not out.name:
        raise FolderError(f"{str(out)!r} is no name of a file")
    if not out.absolute().parent.is_dir():
        raise FolderError(f"{out}: there is no folder {out.parent}")
    if (out.parent / MANIFEST).is_file() and not out.name.startswith("."):
        with renew_folder(out.parent) as work:
            yield work / out.name
        return
    draft = out.with_name(f".{uuid.uuid4().hex[:8]}-{out.name}")
    try:
        yield draft
        os.replace(draft, out)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def durable_file(out: Path) -> Generator[BufferedRandom]:
    """A file to write to that takes its place when all of it is on the disk; a crash leaves the one before it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f"{out.name}.part")
    try:
        with draft.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(out)
        sync_folder(out.parent)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)  # a full disk gets its room back
        _raise_with_path(error, out)
        raise


def sync_folder(folder: Path) -> None:
    """Make a renaming itself last, where the system lets a folder be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
