"""Files that are whole: checksums, and readers that say which file is damaged and what to do."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

UNREADABLE = (
    *(EOFError, LookupError, TypeError, ValueError),
    *(gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile, zlib.error),
)


def verify(content: bytes | np.ndarray, checksum: str) -> None:
    """Raise unless the content has the checksum, "md5:…", "sha256:…" or "git:…"; arrays count in C order.

    The last is what Git calls the content of a file: the SHA-1 of its length and itself.
    """
    data = np.ascontiguousarray(content).data if isinstance(content, np.ndarray) else content
    algorithm = checksum.partition(":")[0]
    if algorithm == "git":
        algorithm, data = "sha1", b"blob %d\0%b" % (len(data), data)
    _compare(hashlib.new(algorithm, data, usedforsecurity=False).hexdigest(), checksum)


def verify_file(path: Path, checksum: str) -> None:
    """Raise unless the file as it lies there has the checksum."""
    with path.open("rb") as file:
        _compare(hashlib.file_digest(file, checksum.partition(":")[0]).hexdigest(), checksum)


def _compare(found: str, checksum: str) -> None:
    algorithm, _, expected = checksum.partition(":")
    if found != expected:
        raise ValueError(f"the {algorithm} of what it holds is {found}, not {expected}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever shows inside that the file is not what it should be becomes one clear error."""
    try:
        yield
    except UNREADABLE as error:
        told = str(error).strip("'\"") or type(error).__name__
        raise ValueError(f"{path} is damaged or not what its name says ({told}); delete it and get it again") from error


def read_npz(path: Path, names: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """Arrays of an npz file by name; nothing in it is ever executed."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no npz archive, or ends too early")
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(arrays[name] for name in names)


def read_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the plain files of a tar archive that are wanted, in the archive's order."""
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.isfile() and wanted(member.name):
                file = archive.extractfile(member)
                assert file is not None  # it is a plain file
                yield member.name, file.read()


def keep_npz(path: Path, **arrays: np.ndarray) -> None:
    """Write arrays under a name that appears once they are whole; where nothing may be written, nothing is."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with suppress(PermissionError):
        try:
            with part.open("wb") as file:
                np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
            part.replace(path)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
