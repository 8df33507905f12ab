"""Where data files come from: a folder of the user's own, or a download whose checksum is verified."""

import functools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from turnout.files.integrity import verify

FOLDER = "TURNOUT_DATA"
CHUNK_BYTES = 2**16  # the most that is lost when a connection breaks
TIMEOUT_SECONDS = 30  # without an answer from a mirror, before the next is tried


def given(path: str) -> Path | None:
    """The file of that path in the data folder, if it exists."""
    folder = os.environ.get(FOLDER)
    file = Path(folder).expanduser() / path if folder else None
    return file if file is not None and file.exists() else None


def table_file(path: str) -> Path:
    """The table that the user names, in the current folder or in the data folder."""
    file = Path(path) if Path(path).is_file() else given(path)
    if file is None or not file.is_file():
        raise FileNotFoundError(
            f"{path}: there is no such file, here or in the folder that {FOLDER} names; "
            "give the path of a CSV, .csv.gz or Parquet file"
        )
    return file


@dataclass(frozen=True)
class Remote:
    """A file that can be downloaded: its path in a data folder, its checksum, and the addresses that have it."""

    path: str
    checksum: str  # "md5:…", "sha256:…" or "git:…"; "" if none is known, and the reader checks the content
    mirrors: tuple[str, ...]


def local_copy(remote: Remote, module: str) -> Path:
    """The file in the user's folder or in the cache, downloaded into the cache if it is in neither."""
    return given(remote.path) or download(remote, module)


def download(remote: Remote, module: str) -> Path:
    """The file in the cache, downloaded from the first mirror that delivers it; `module.load` is what a user can call.

    A file gets its name only if its checksum is right. An interrupted download is resumed, from the next mirror if need
    be.
    """
    try:
        import pooch
    except ImportError:
        raise FileNotFoundError(_missing(remote.path, module, "pooch is not installed: pip install pooch")) from None
    path = Path(pooch.os_cache("turnout")) / "data" / remote.path
    resume: Any = functools.partial(_resume, path.with_name(path.name + ".part"))
    pooch_checksum = remote.checksum if remote.checksum.startswith(("md5:", "sha256:")) else None
    failures = []
    for address in remote.mirrors:
        try:
            pooch.retrieve(address, pooch_checksum, path.name, path.parent, downloader=resume)
            if remote.checksum and pooch_checksum is None:
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
    """Download into `part`, which survives a failure and is then continued where it ends."""
    import requests

    bytes_before = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={bytes_before}-"} if bytes_before else {}
    with requests.get(address, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
        if response.status_code != requests.codes.requested_range_not_satisfiable:  # else the part was complete
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            with part.open("ab" if resumed else "wb") as file:
                _write(response, file, part.stem, bytes_before if resumed else 0)
    part.replace(output)


def _write(response: Any, file: BinaryIO, name: str, bytes_before: int) -> None:
    """Write what arrives, with a progress bar on the terminal if rich is installed."""
    with _bar(name, bytes_before, int(response.headers.get("content-length", 0)) + bytes_before) as count:
        for chunk in response.iter_content(CHUNK_BYTES):
            file.write(chunk)
            count(len(chunk))


@contextmanager
def _bar(name: str, bytes_before: int, total: int) -> Generator[Callable[[int], None]]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=total or None, completed=bytes_before)
        yield lambda count: progress.advance(task, count)
