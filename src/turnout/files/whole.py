"""Folders and files that are whole or absent: written under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

from turnout.errors import FolderError


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
def whole_or_absent(folder: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to `folder` only when everything is done."""
    created = [parent for parent in (folder.parent, *folder.parent.parents) if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = folder.parent / f".{folder.name}-{uuid.uuid4().hex[:8]}"
    work.mkdir()
    try:
        yield work
        if folder.exists():  # empty, and Windows does not rename onto a folder
            folder.rmdir()
        os.replace(work, folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        for parent in created:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
        raise


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """A temporary file that is renamed to `out`, and replaces it, only when everything is done."""
    if not out.absolute().parent.is_dir():
        raise FolderError(f"{out}: there is no folder {out.parent}")
    draft = out.with_name(f".{uuid.uuid4().hex[:8]}-{out.name}")
    try:
        yield draft
        os.replace(draft, out)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def durable_file(out: Path) -> Iterator[BufferedWriter]:
    """A file to write to that takes its place when all of it is on the disk; a crash leaves the one before it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f"{out.name}.part")
    with draft.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    draft.replace(out)
    _sync_folder(out.parent)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself last, where the system lets a folder be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
