"""Completions of names in the shell, without heavy imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

Offer = tuple[str, str]  # a name, and its summary
FIGURES = ("curves", "availability", "weights", "groups", "clients", "staleness", "all")  # of `turnout plot`


def experiments(incomplete: str) -> Iterator[Offer]:
    """Shipped experiments, and TOML files from here."""
    yield from _of("experiments", incomplete)
    yield from _files(incomplete, (".toml",))


def claims(incomplete: str) -> Iterator[Offer]:
    """Shipped claims, and TOML files from here."""
    yield from _of("claims", incomplete)
    yield from _files(incomplete, (".toml",))


def strategies(incomplete: str) -> Iterator[Offer]:
    """Strategies."""
    yield from _of("strategies", incomplete)


def citable(incomplete: str) -> Iterator[Offer]:
    """Strategies, shipped experiments, and TOML files from here."""
    yield from strategies(incomplete)
    yield from experiments(incomplete)


def kinds(incomplete: str) -> Iterator[Offer]:
    """Kinds that can be listed."""
    from turnout.workbench.experiment.registry import LISTED_KINDS

    yield from ((kind, "") for kind in LISTED_KINDS if kind.startswith(incomplete))


def logs(incomplete: str) -> Iterator[Offer]:
    """Files that may be participation logs."""
    yield from _files(incomplete, (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet"))


def runs(incomplete: str) -> Iterator[Offer]:
    """Run folders, those under runs/ first, and the folders on the way to others."""
    for folder in sorted(Path("runs").glob("*/run.json"), reverse=True):
        if str(folder.parent).startswith(incomplete):
            yield str(folder.parent), ""
    yield from _files(incomplete, ())


def figures(incomplete: str) -> Iterator[Offer]:
    """Figures of a run."""
    yield from ((kind, "") for kind in FIGURES if kind.startswith(incomplete))


def _of(kind: str, incomplete: str) -> Iterator[Offer]:
    from turnout.workbench.experiment.registry import entries

    yield from ((name, entry.summary) for name, entry in entries(kind).items() if name.startswith(incomplete))


def _files(incomplete: str, endings: tuple[str, ...]) -> Iterator[Offer]:
    """Files with such an ending, and the folders on the way to others."""
    typed = Path(incomplete)
    folder, start = (typed, "") if incomplete.endswith("/") else (typed.parent, typed.name)
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith(start) and not (path.name.startswith(".") and not start):
            if path.is_dir():
                yield f"{path}/", ""
            elif endings and path.name.endswith(endings):
                yield str(path), ""
