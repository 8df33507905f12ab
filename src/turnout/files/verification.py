"""Whether files are as they were written: folders by their manifest, checkpoints and states by their digest."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from turnout.errors import UserError
from turnout.files.archive import read_archive
from turnout.files.manifest import MANIFEST, OK, UNKNOWN, EditedError, Manifest

RESULTS = ("run.json", "tuning.json", "result.json", "audit.json", "diagnosis.json")  # one is in every folder of ours


@dataclass(frozen=True)
class Verified:
    """A folder, or a file with a digest, and the state of every file: ok, or what is wrong."""

    path: Path
    files: dict[str, str]
    has_manifest: bool = True  # or a digest

    @property
    def num_ok(self) -> int:
        return sum(state == OK for state in self.files.values())

    @property
    def complaints(self) -> list[str]:
        """What is wrong, one line per file."""
        inside = self.path.is_dir()
        return [
            f"{self.path / name if inside else self.path}: {state}"
            for name, state in self.files.items()
            if state not in (OK, UNKNOWN)
        ]


def verify_results(path: Path) -> list[Verified]:
    """A file with a digest, or a folder of results and all those inside it."""
    if path.is_file():
        return [_file(path)]
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file or folder")
    results = [one for folder in (path, *_folders_in(path)) for one in _of_folder(folder)]
    if not results:
        raise UserError(f"{path}: holds no result, and no checkpoint")
    return results


def _folders_in(path: Path) -> list[Path]:
    inside = (folder for folder in path.rglob("*") if folder.is_dir())
    return sorted(folder for folder in inside if not any(part[0] == "." for part in folder.relative_to(path).parts))


def _of_folder(folder: Path) -> Iterator[Verified]:
    try:
        manifest = Manifest.read(folder)
    except EditedError as error:
        yield Verified(folder, {MANIFEST: str(error).removeprefix(f"{folder / MANIFEST}: ")})
        return
    if manifest is not None:
        yield Verified(folder, manifest.states(folder))
    elif any((folder / name).is_file() for name in RESULTS):
        yield Verified(folder, {}, has_manifest=False)
    elif folder.name == "unfinished" or folder.parent.name == "unfinished":
        yield from (_file(file) for file in sorted(folder.glob("*.npz")))


def _file(path: Path) -> Verified:
    try:
        read_archive(path)
    except EditedError as error:
        return Verified(path, {path.name: str(error).removeprefix(f"{path}: ")})
    return Verified(path, {path.name: OK})
