"""Where data files come from: a folder of the user's own, or a download whose checksum is verified."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from turnout.files.data_folder import FOLDER, given
from turnout.files.integrity import verify

CHUNK_BYTES = 2**16  # what is lost at most when a connection breaks
PATIENCE = 30  # seconds without an answer after which a mirror is given up


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded: its path in a data folder, its checksum, and the addresses that have it."""

    path: str
    checksum: str  # "md5:…", "sha256:…" or "git:…"; "" where none is known, and what is read of it is checked
    mirrors: tuple[str, ...]


def located(remote: Remote, module: str) -> Path:
    """The file where it is, in the user's folder or in the cache, or else downloaded into the cache."""
    return given(remote.path) or fetched(remote, module)


def fetched(remote: Remote, module: str) -> Path:
    """The file in the cache, downloaded from the first mirror that gives it whole; `module.load` would do it, too.

    A file keeps its name only if its checksum is right. What an interrupted download has left is taken up again, by the
    next mirror if need be.
    """
    try:
        import pooch
    except ImportError:
        raise FileNotFoundError(_missing(remote.path, module, "pooch is not installed: pip install pooch")) from None
    path = Path(pooch.os_cache("turnout")) / "data" / remote.path
    take_up: Any = functools.partial(_resume, path.with_name(path.name + ".part"))
    known = remote.checksum if remote.checksum.startswith(("md5:", "sha256:")) else None  # those that pooch can check
    failures = []
    for address in remote.mirrors:
        try:
            pooch.retrieve(address, known, path.name, path.parent, downloader=take_up)
            if remote.checksum and known is None:
                _verify_or_remove(path, remote.checksum)
            return path
        except (OSError, ValueError) as error:  # no connection, or the wrong bytes
            failures.append(f"{urlsplit(address).netloc}: {_reason(error)}")
    raise FileNotFoundError(_missing(remote.path, module, "; ".join(failures)))


def _verify_or_remove(path: Path, checksum: str) -> None:
    try:
        verify(path.read_bytes(), checksum)
    except ValueError:
        path.unlink()
        raise


def _missing(path: str, module: str, why: str) -> str:
    return (
        f"{path} is missing and cannot be downloaded here ({why}); set {FOLDER} to a folder that holds it, or download "
        f"it where there is a network: python -c 'from {module} import load; load()'"
    )


def _reason(error: Exception) -> str:
    """What went wrong, on one short line."""
    if isinstance(error, ValueError):
        return "the checksum is wrong"
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"status {status}" if status else type(error).__name__


def _resume(part: Path, address: str, output: str, _: Any) -> None:
    """Download by way of `part`, which outlives a failure and is then taken up where it ends."""
    import requests

    begun = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    with requests.get(address, headers=headers, stream=True, timeout=PATIENCE) as answer:
        if answer.status_code != requests.codes.requested_range_not_satisfiable:  # else all of it was there
            answer.raise_for_status()
            resumed = answer.status_code == requests.codes.partial_content
            with part.open("ab" if resumed else "wb") as file:
                _write(answer, file, part.stem, begun if resumed else 0)
    part.replace(output)


def _write(answer: Any, file: BinaryIO, name: str, begun: int) -> None:
    """Write what comes, with a bar on the terminal where rich is there to draw it."""
    with _bar(name, begun, int(answer.headers.get("content-length", 0)) + begun) as count:
        for chunk in answer.iter_content(CHUNK_BYTES):
            file.write(chunk)
            count(len(chunk))


@contextmanager
def _bar(name: str, begun: int, whole: int) -> Iterator[Callable[[int], None]]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=whole or None, completed=begun)
        yield lambda count: progress.advance(task, count)
