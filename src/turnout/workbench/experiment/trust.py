"""Which files may name code: `module:attribute` is imported for files that the user runs, never for what is read."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnout.workbench.experiment import toml
from turnout.workbench.experiment.registry import experiment_path, is_code

TRUST = "TURNOUT_TRUST"  # environment variable: "1" trusts every file that is run
PROSE = ("title", "claim", "label", "notes", "summary", "says")  # keys of text in which a colon is only a colon


class Code(enum.Enum):
    """What becomes of code that a file names."""

    IMPORTED = "imported"
    REFUSED = "refused"  # the file is to be run, but is not the user's own
    UNREAD = "unread"  # the file is only read: the name stays a name


def in_working_folder(path: Path) -> bool:
    """Whether a file is in the present folder or below it, links followed."""
    return path.resolve().is_relative_to(Path.cwd().resolve())


def is_trusted(path: Path, trust: bool = False) -> bool:
    """Whether code from a file or folder may be imported: it is the user's own, or the user says so."""
    return trust or os.environ.get(TRUST) == "1" or in_working_folder(path)


def code_of(path: Path, document: Any, trust: bool = False) -> Code:
    """What becomes of code in a file that the user runs: it is imported if the file is the user's own, or trusted."""
    return Code.IMPORTED if is_trusted(path, trust) or not names_code(document) else Code.REFUSED


def read_document(source: str | Path, settings: Iterable[str], trust: bool) -> tuple[toml.Document, Code]:
    """The document of an experiment that the user runs, with settings on top, and what becomes of code in its file."""
    path = experiment_path(str(source))
    document = toml.read(path)
    return toml.override(document, settings), code_of(path, document, trust)


def names_code(document: Any) -> bool:
    """Whether a document may name code."""
    return any(map(is_code, texts(document)))


def texts(value: Any) -> Iterator[str]:
    """All texts of a document that may name something."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in PROSE:
                yield from texts(item)
