"""BibTeX of what an experiment compares, from the file that ships with the strategies; nothing heavy is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from turnout.errors import nearest
from turnout.workbench.experiment import registry, toml
from turnout.workbench.experiment.errors import ExperimentError

OF_RESTS = ("sun2025debiasing",)  # who proposed a rest between two participations


def cite(source: str) -> tuple[list[str], list[str]]:
    """Entries for a strategy or an experiment, each once and in order, and the strategies that have none."""
    if source in registry.entries("strategies"):
        return _entries([source])
    if Path(source).suffix != ".toml" and not Path(source).exists() and source not in registry.entries("experiments"):
        names = [*registry.entries("strategies"), *registry.entries("experiments")]
        raise ExperimentError(f"there is no strategy or experiment {source!r}: {nearest(source, names)}")
    return cite_document(toml.read(registry.experiment_path(source)))


def cite_document(document: toml.Document) -> tuple[list[str], list[str]]:
    """The same for the document of an experiment."""
    entrants = document.get("strategies", [])
    servers = [table.get("server") for table in (document, *entrants) if isinstance(table, dict)]
    rests = any(isinstance(server, dict) and "rest" in server for server in servers)
    return _entries((name for entrant in entrants for name in _names(entrant)), OF_RESTS if rests else ())


def _entries(names: Iterable[str], more: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    keys_by_name = {name: _keys(name) for name in dict.fromkeys(names)}
    bibtex = references()
    cited_keys = dict.fromkeys([*(key for keys in keys_by_name.values() for key in keys), *more])
    return [bibtex[key] for key in cited_keys], [name for name, keys in keys_by_name.items() if not keys]


def short_citation(key: str) -> str:
    """A reference as it stands in a sentence: authors and year."""
    bibtex = references()
    if key not in bibtex:
        raise ExperimentError(f"there is no reference {key!r}: {nearest(key, bibtex)}")
    fields = dict(re.findall(r"^ *(author|year) *= *\{(.*?)\},?$", bibtex[key], re.MULTILINE))
    names = [name.partition(",")[0] for name in fields["author"].split(" and ")]
    return f"{f'{names[0]} et al.' if len(names) > 2 else ' and '.join(names)} {fields['year']}"


def references() -> dict[str, str]:
    """BibTeX entries by their key."""
    text = (resources.files("turnout") / "strategies" / "references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@.*?^\}$", text, re.MULTILINE | re.DOTALL)
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}


def _names(table: Any) -> Iterator[str]:
    """The strategy of a table, and those inside it."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, list):
        for entry in table:
            yield from _names(entry)
    elif isinstance(table, dict):
        yield from _names(table.get("name"))
        yield from _names(table.get("strategy"))


def _keys(name: str) -> tuple[str, ...]:
    strategies = registry.entries("strategies")
    if name in strategies:
        return strategies[name].traits["references"]
    if ":" not in name:
        raise ExperimentError(f"there is no {name!r} among the strategies: {nearest(name, strategies)}")
    return ()  # code of the user, which is not imported to be cited
