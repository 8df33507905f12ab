"""BibTeX of what an experiment compares, from the file that ships with the strategies; nothing heavy is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from turnout.errors import nearest
from turnout.experiment import registry, toml
from turnout.experiment.errors import ExperimentError


def cited(source: str) -> tuple[list[str], list[str]]:
    """Entries for a strategy or an experiment, each once and in order, and the strategies that have none."""
    if source in registry.entries("strategies"):
        return _entries([source])
    if Path(source).suffix != ".toml" and not Path(source).exists() and source not in registry.entries("experiments"):
        known = [*registry.entries("strategies"), *registry.entries("experiments")]
        raise ExperimentError(f"there is no strategy or experiment {source!r}: {nearest(source, known)}")
    return cited_in(toml.read(registry.experiment_path(source)))


def cited_in(document: toml.Document) -> tuple[list[str], list[str]]:
    """The same for the document of an experiment."""
    return _entries(name for entrant in document.get("strategies", []) for name in _names(entrant))


def _entries(names: Iterable[str]) -> tuple[list[str], list[str]]:
    keys = {name: _keys(name) for name in dict.fromkeys(names)}
    known = references()
    wanted = dict.fromkeys(key for found in keys.values() for key in found)
    return [known[key] for key in wanted], [name for name, found in keys.items() if not found]


def short_citation(key: str) -> str:
    """A reference as it stands in a sentence: authors and year."""
    known = references()
    if key not in known:
        raise ExperimentError(f"there is no reference {key!r}: {nearest(key, known)}")
    fields = dict(re.findall(r"^ *(author|year) *= *\{(.*?)\},?$", known[key], re.MULTILINE))
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
        for one in table:
            yield from _names(one)
    elif isinstance(table, dict):
        yield from _names(table.get("name"))
        yield from _names(table.get("strategy"))


def _keys(name: str) -> tuple[str, ...]:
    if ":" in name:
        return _keys_of_another(name)
    known = registry.entries("strategies")
    if name not in known:
        raise ExperimentError(f"there is no {name!r} among the strategies: {nearest(name, known)}")
    return known[name].traits["references"]


def _keys_of_another(name: str) -> tuple[str, ...]:
    try:
        found = getattr(registry.find("strategies", name, "cite"), "references", ())
    except ExperimentError:
        return ()
    return tuple(key for key in found if key in references())
