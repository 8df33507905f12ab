"""Checksums of files, and readers that say which file is damaged and what to do."""

import gzip
import hashlib
import lzma
import math
import os
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from turnout.errors import UserError

UNREADABLE = (
    *(EOFError, LookupError, OverflowError, RecursionError, TypeError, ValueError, lzma.LZMAError, struct.error),
    *(gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile, zlib.error, NotImplementedError, AttributeError),
)


def verify(content: bytes | np.ndarray, checksum: str) -> None:
    """Raise unless the content has the checksum, "md5:…", "sha256:…" or "git:…"; arrays count in C order.

    The last is the name that Git gives to a file's content: the SHA-1 of its length and the content.
    """
    data = np.ascontiguousarray(content).data if isinstance(content, np.ndarray) else content
    algorithm = checksum.partition(":")[0]
    if algorithm == "git":
        algorithm, data = "sha1", b"blob %d\0%b" % (len(data), data)
    _compare(hashlib.new(algorithm, data, usedforsecurity=False).hexdigest(), checksum)


def verify_file(path: Path, checksum: str) -> None:
    """Raise unless the file on disk has the checksum."""
    with path.open("rb") as file:
        _compare(hashlib.file_digest(file, checksum.partition(":")[0]).hexdigest(), checksum)


def _compare(actual: str, checksum: str) -> None:
    algorithm, _, expected = checksum.partition(":")
    if actual != expected:
        raise ValueError(f"the {algorithm} of what it holds is {actual}, not {expected}")


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Turn every sign of a damaged file into one clear error that names it."""
    try:
        yield
    except UNREADABLE as error:
        why = str(error).strip("'\"") or type(error).__name__
        raise ValueError(f"{path} is damaged or not what its name says ({why}); delete it and get it again") from error


def read_npz(path: Path, names: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """Arrays of an npz file by name; nothing in it is ever executed."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no npz archive, or ends too early")
    try:
        with zipfile.ZipFile(path) as archive:
            for name in names:
                _check_size(archive, f"{name}.npy")
        with np.load(path, allow_pickle=False) as arrays:
            return tuple(arrays[name] for name in names)
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"it names a place outside of itself: {error}") from error


def _check_size(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse an array that promises more than it holds, before there is room made for it."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        held = archive.getinfo(name).file_size - file.tell()
    if not dtype.hasobject and (promised := math.prod(shape) * dtype.itemsize) != held:
        raise ValueError(f"{name} promises {promised} bytes of shape {shape} and has {held}")


def read_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the wanted plain files of a tar archive, in the order of the archive."""
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.isfile() and wanted(member.name):
                file = archive.extractfile(member)
                assert file is not None  # it is a plain file
                yield member.name, file.read()


def keep_npz(path: Path, **arrays: np.ndarray) -> None:
    """Write arrays to a file that appears only once it is complete; without permission, write nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with suppress(PermissionError):
        try:
            with part.open("wb") as file:
                np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
            part.replace(path)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)


@contextmanager
def refuse_panics(path: str) -> Generator[None]:
    """Turn a panic of polars inside into an error of one line, without the pages that Rust prints about it.

    Everything else that is printed meanwhile appears at the end.
    """
    import polars as pl

    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            yield
        except pl.exceptions.PanicException as error:
            printed.truncate(0)
            why = " ".join(str(error).split())[:100]
            raise UserError(f"{path}: is damaged, so that it cannot be read ({why}); write or get it again") from None
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            printed.seek(0)
            if content := printed.read():
                os.write(2, content)
