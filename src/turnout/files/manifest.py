"""The manifest of a folder: its format, and the SHA-256 of every file, so that a damaged or edited file is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from turnout.errors import UserError

MANIFEST = "manifest.json"
RENEWAL = ".renewal"  # files that are about to replace those beside it, see `whole.renew_folder`
FORMAT = 1  # of folders; a reader refuses a later one
UNLISTED = ("participation.csv",)  # grows by a line per event while a fleet trains, so it has no sum

UNKNOWN = "not in the manifest"  # state of a file that somebody added
OK = "ok"  # state of a file that is as it was written
ATTEMPTS = 5  # to read a folder that another process is renewing


class EditedError(UserError):
    """A file that is not as it was written."""


@dataclass(frozen=True)
class Manifest:
    """Names of files and their sums, "sha256:…"."""

    files: dict[str, str]

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """The sums of all files that are in the folder now."""
        names = sorted(file.name for file in folder.iterdir() if file.is_file() and _is_listed(file.name))
        return cls({name: _sum_of_file(folder / name) for name in names})

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder, None if it has none; an EditedError if it cannot be read."""
        text = content_of(folder, MANIFEST)
        return None if text is None else cls.parse(text, folder / MANIFEST)

    @classmethod
    def parse(cls, text: bytes, path: Path) -> Manifest:
        """The manifest that a file holds; the path is for the error."""
        try:
            document = json.loads(text)
            version, files = document["format"], document["files"]
            if type(version) is int and version > FORMAT:
                raise EditedError(f"{path}: format {version} is of a later turnout, this one reads up to {FORMAT}")
            plain = all(isinstance(total, str) and _is_listed(name) for name, total in files.items())
            if version != FORMAT or not plain or not files:
                raise ValueError("it does not list files and their sums")
        except EditedError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise EditedError(f"{path}: damaged or edited, not a manifest ({error})") from error
        return cls(files)

    def text(self) -> str:
        return json.dumps({"format": FORMAT, "files": self.files}, indent=1, sort_keys=True) + "\n"

    def check(self, name: str, content: bytes | None, folder: Path) -> None:
        """Raise an EditedError that names the file, unless it is as it was written."""
        if (state := self._state(name, content)) != OK:
            raise EditedError(f"{folder / name}: {state}; `turnout verify {folder}` tells of all files")

    def _state(self, name: str, content: bytes | None) -> str:
        if content is None:
            return "missing, although the manifest lists it"
        if name not in self.files:
            return UNKNOWN
        return OK if sum_of(content) == self.files[name] else "edited or damaged since it was written"

    def states(self, folder: Path) -> dict[str, str]:
        """Every file of the folder, and whether it is as it was written."""
        names = {file.name for file in folder.iterdir() if file.is_file() and _is_listed(file.name)}
        return {name: self._state(name, content_of(folder, name)) for name in sorted(names | self.files.keys())}


def sum_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _sum_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _is_listed(name: str) -> bool:
    """Whether a manifest lists files of this name: those of the folder itself, not hidden."""
    return Path(name).name == name and not name.startswith(".") and name not in (MANIFEST, *UNLISTED)


def content_of(folder: Path, name: str) -> bytes | None:
    """What a file of the folder holds, also while the folder is renewed; None if there is none."""
    for place in (folder / RENEWAL / name, folder / name):
        with suppress(FileNotFoundError):
            if place.is_file():  # a pipe or a device could be read without end
                return place.read_bytes()
    return None


def read_contents(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Contents of those files that exist; each is as the manifest says, if the folder has one."""
    wanted = list(names)
    for attempt in range(ATTEMPTS):
        manifest = Manifest.read(folder)
        contents = {name: content for name in wanted if (content := content_of(folder, name)) is not None}
        if manifest is None:
            return contents
        try:
            for name in (contents.keys() | manifest.files.keys() & {*wanted}) - {*UNLISTED}:
                manifest.check(name, contents.get(name), folder)
            return contents
        except EditedError:
            if attempt == ATTEMPTS - 1 or Manifest.read(folder) == manifest:
                raise
    raise AssertionError("the last attempt returns or raises")
