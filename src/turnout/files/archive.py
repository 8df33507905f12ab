"""Arrays and a line of JSON in one npz file or its bytes, no pickle; it ends with the digest of all before."""

import hashlib
import json
from collections.abc import Mapping
from io import BufferedRandom, BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from turnout.files.integrity import UNREADABLE
from turnout.files.manifest import EditedError
from turnout.files.whole import durable_file

Arrays = dict[str, np.ndarray]

_HEADER = "header"
_MARK = b"\nturnout sha256:"
_TRAILER = len(_MARK) + 64
_CHUNK = 2**20


def write_archive(path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write the file; after a crash the previous one is still there.

    Names of arrays may hold any character, so that they are numbered inside.
    """
    with durable_file(path) as file:
        _write(file, header, arrays)


def read_archive(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays; an EditedError if it is not as it was written, an OSError if it cannot be opened."""
    return from_bytes(path.read_bytes(), path)


def to_bytes(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """What `write_archive` writes, where there is no file."""
    content = BytesIO()
    _write(content, header, arrays)
    return content.getvalue()


def from_bytes(content: bytes, path: Path | str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of an archive; an EditedError that names the path if it is not as it was written."""
    held, trailer = content[:-_TRAILER], content[-_TRAILER:]
    if not trailer.startswith(_MARK):
        raise EditedError(f"{path}: not such a file, or it ends too early")
    if trailer != _MARK + hashlib.sha256(held).hexdigest().encode():
        raise EditedError(f"{path}: edited or damaged since it was written")
    try:
        with np.load(BytesIO(held), allow_pickle=False) as arrays:
            line = json.loads(arrays[_HEADER].tobytes())
            names = {f"array{number}": name for number, name in enumerate(line["names"])}
            return dict(line["header"]), {name: arrays[number] for number, name in names.items()}
    except (*UNREADABLE, AttributeError, OSError, RuntimeError) as error:  # the digest fits what somebody made up
        raise EditedError(f"{path}: not an archive of arrays ({error})") from error


def _write(file: BufferedRandom | BytesIO, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    numbered = {f"array{number}": array for number, array in enumerate(arrays.values())}
    line = np.frombuffer(json.dumps({"header": header, "names": list(arrays)}).encode(), np.uint8)
    np.savez(file, allow_pickle=False, **{_HEADER: line}, **numbered)
    file.flush()
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0, 2)
    file.write(_MARK + digest.encode())
