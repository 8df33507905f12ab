"""Texts by author or document: from a folder, a file, a table, or a small generator that needs no file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from turnout.errors import nearest
from turnout.files.data_folder import FOLDER, given
from turnout.tasks.data.csv_table import text_rows

Documents = dict[str, str]  # text by author or document
HEADING = "## "  # begins a line of a .txt file that names the author of what follows

NUM_SENTENCES = 80  # of each author of the generated text
KEEPERS = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hugo", "Ilse", "Jon")
SUBJECTS = (
    "the wind",
    "the lamp",
    "a ship",
    "the fog",
    "my dog",
    "the boat",
    "a gull",
    "the tide",
    "the ladder",
    "rain",
)
VERBS = ("came", "went", "turned", "waited", "returned", "rested", "sang", "grew", "faded", "stayed")
PLACES = ("by the rocks", "at the pier", "near the tower", "over the bay", "in the north", "under the stairs")
TIMES = ("at dawn", "at noon", "before supper", "all night", "twice today", "again")
ENDINGS = (".", "!", "...", " - so be it.", ", I think.")


def documents(path: str | None = None, client: str = "client", column: str = "text") -> Documents:
    """The texts of a folder (one .txt file each), of a .txt file with headings, or of a table; else generated ones."""
    if path is None:
        return lighthouse_letters()
    place = Path(path) if Path(path).exists() else given(path)
    if place is None:
        raise FileNotFoundError(f"{path}: there is no such file or folder, here or in the folder that {FOLDER} names")
    if place.is_dir():
        texts = {file.stem: _read(file) for file in sorted(place.glob("*.txt"))}
        if not texts:
            raise ValueError(f"{path}: the folder has no .txt file; give one per author or document")
        return texts
    return _by_heading(path, _read(place)) if place.suffix == ".txt" else _of_table(path, client, column)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: is not text in UTF-8: {error.reason} at byte {error.start}") from None


def _by_heading(path: str, text: str) -> Documents:
    texts: dict[str, list[str]] = {}
    before, *stretches = f"\n{text}".split(f"\n{HEADING}")
    if before.strip() or not stretches:
        raise ValueError(
            f"{path}: must begin with a line {HEADING + 'name'!r}, and have one wherever another author or document "
            "begins; or give a folder with one .txt file each"
        )
    for stretch in stretches:
        name, _, body = stretch.partition("\n")
        texts.setdefault(name.strip(), []).append(body)
    return {name: "\n".join(bodies) for name, bodies in texts.items()}


def _of_table(path: str, client: str, column: str) -> Documents:
    """The texts of each client, one per line."""
    rows = text_rows(path)
    for name in (client, column):
        if name not in rows.columns:
            raise ValueError(f"{path}: there is no column {name!r}: {nearest(name, rows.columns)}")
    texts: dict[str, list[str]] = {}
    for author, line in rows.select(client, column).drop_nulls().iter_rows():
        texts.setdefault(author, []).append(line)
    return {author: "\n".join(lines) for author, lines in texts.items()}


def lighthouse_letters() -> Documents:
    """Short letters of ten keepers of lighthouses, drawn from a small grammar.

    Each keeper has subjects, places and an ending of their own that they prefer, so that texts differ as authors do.
    """
    return {name: _letter(np.random.default_rng(number)) for number, name in enumerate(KEEPERS)}


def _letter(generator: np.random.Generator) -> str:
    lists = (SUBJECTS, VERBS, PLACES, TIMES, ENDINGS)
    tastes = [generator.dirichlet(np.full(len(words), 0.5)) for words in lists]
    sentences = []
    for _ in range(NUM_SENTENCES):
        subject, verb, place, when, end = (
            words[generator.choice(len(words), p=taste)] for words, taste in zip(lists, tastes, strict=True)
        )
        sentences.append(f"{subject[0].upper()}{subject[1:]} {verb} {place} {when}{end}")
    return " ".join(sentences)
