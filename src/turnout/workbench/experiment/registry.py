"""The names that an experiment can have, with no registration: a file in the right folder is enough.

Only `find` imports, and only the one module that is asked for; a listing is read from the source and so is instant. A
typing mistake is found from the source, too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from turnout.errors import nearest
from turnout.files.opened import Digests, files_opened
from turnout.workbench.experiment.errors import ExperimentError, check_keys
from turnout.workbench.experiment.source import Defaults, builder_named, builders_of, names_defined, summary_of

PACKAGES = ("strategies", "availability", "tasks", "uploads")  # one builder per file, with the name of the file
MODULES = {  # several builders in one file
    "links": "world.links",
    "compute": "world.compute",
    "durations": "world.durations",
    "facts": "server.facts",
    "paces": "paces",
}
SHIPPED = {
    "experiments": ("workbench", "experiment", "library"),
    "claims": ("workbench", "reproduction", "claims"),
}  # folders of TOML files
LISTED_KINDS = (*PACKAGES, *MODULES, *SHIPPED)
# Modules of ours whose builders have no shorter name:
OURS = (
    *("turnout.optimizers", "turnout.workbench.experiment.deployed"),
    *("turnout.workbench.reproduction.variants", "turnout.workbench.reproduction.regressions"),
)
read_at_import: dict[str, Digests] = {}  # the files that a user's modules read when they were imported
FILLED = ("num_clients", "sizes", "batch_size")  # arguments that an experiment fills in itself
COMMON_TABLES = ("task", "availability", "links", "compute", "durations", "local", "uploads", "server", "facts", "pace")
OVERRIDES = ("local", "uploads", "server", "facts", "pace")  # tables of which a strategy may have its own
KINDS = {"task": "tasks", "pace": "paces"}  # of the builders that a table names, where that is not the table's name
NEEDED = ("rounds", "task", "availability", "strategies")
OF_RUN = ("title", "claim", "rounds", "seeds", "evaluate_every", "metrics", "calibrate", "spread")
KEYS = (*OF_RUN, *COMMON_TABLES, "strategies")


@dataclass(frozen=True)
class Entry:
    """One thing that an experiment can name."""

    name: str
    summary: str  # first line of its docstring
    parameters: Defaults = field(default_factory=dict)  # without those that an experiment fills in
    module: str = ""
    attribute: str = ""
    traits: dict[str, Any] = field(default_factory=dict)  # constants of a strategy's class: needs, references, …

    @property
    def title(self) -> str:
        """What papers call it."""
        return self.traits.get("title") or self.attribute


@functools.cache
def entries(kind: str) -> dict[str, Entry]:
    """All entries of a kind, by name."""
    if kind not in LISTED_KINDS:
        raise ExperimentError(f"there is no kind {kind!r}: {nearest(kind, LISTED_KINDS)}")
    if kind in SHIPPED:
        listed = _shipped(kind)
    elif kind in PACKAGES:
        listed = _of_package(kind)
    else:
        listed = _of_module(f"turnout.{MODULES[kind]}")
    return {entry.name: entry for entry in sorted(listed, key=lambda entry: entry.name)}


def find(kind: str, name: str, where: str) -> Callable[..., Any]:
    """The builder of that name; `module:attribute` is anything that can be imported."""
    if ":" in name:
        return _import(name, where)
    if kind in ("optimizers", "schedules"):
        builders = _of_optax_and_ours(kind)
        if name not in builders:
            raise ExperimentError(f"{where}: there is no {name!r} among the {kind}: {nearest(name, builders)}")
        return builders[name]
    entry = entry_named(kind, name, where)
    return getattr(importlib.import_module(entry.module), entry.attribute)


def entry_named(kind: str, name: str, where: str) -> Entry:
    """The entry of that name, without importing it."""
    if name not in entries(kind):
        raise ExperimentError(f"{where}: there is no {name!r} among the {kind}: {nearest(name, entries(kind))}")
    return entries(kind)[name]


def name_of(kind: str, builder: type) -> str | None:
    """The name by which an experiment calls a class of ours; None for any other class."""
    home = (builder.__module__, builder.__name__)
    return next((entry.name for entry in entries(kind).values() if (entry.module, entry.attribute) == home), None)


def is_code(name: str) -> bool:
    """Whether a name stands for somebody's code, `module:attribute`, rather than for a builder of ours."""
    module, colon, attribute = name.partition(":")
    if not colon or module not in OURS:
        return bool(colon)
    return attribute not in names_defined(module) or attribute.startswith("_")


def experiment_path(name: str) -> Path:
    """The file of an experiment: a shipped one by its name, any other by its path or that of its run folder."""
    path = Path(name)
    if (path / "experiment.toml").is_file():
        return path / "experiment.toml"
    if path.is_file():
        return path
    if name in entries("experiments"):  # also where a folder has the same name
        return shipped_path("experiments", name)
    if path.is_dir():
        raise ExperimentError(f"{name}: holds no experiment.toml: name a TOML file, or a run folder")
    if path.suffix == ".toml":
        beside = [str(file) for file in path.parent.glob("*.toml")]
        raise ExperimentError(f"{name}: there is no such file: {nearest(name, beside)}")
    raise ExperimentError(f"there is no experiment {name!r}: {nearest(name, entries('experiments'))}, or a path")


def claim_path(source: str) -> Path:
    """The file of a claim: a shipped one by its name, any other by its path."""
    if source.endswith(".toml") or Path(source).is_file():
        return Path(source)
    if source not in entries("claims"):
        raise ExperimentError(f"there is no claim {source!r}: {nearest(source, entries('claims'))}, or a path")
    return shipped_path("claims", source)


def shipped_path(kind: str, name: str) -> Path:
    """The file of a shipped experiment or claim."""
    return Path(str(_folder(kind) / f"{name}.toml"))


def _import(name: str, where: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        with files_opened() as opened:
            imported = importlib.import_module(module)
        read_at_import.setdefault(module, {}).update(opened)
        builder = functools.reduce(getattr, attribute.split("."), imported)
    except (ImportError, AttributeError, ValueError) as error:
        raise ExperimentError(f"{where}: cannot import {name!r}: {error}") from error
    if not callable(builder):
        raise ExperimentError(f"{where}: {name!r} is not a class or a function")
    return builder


@functools.cache
def _of_optax_and_ours(kind: str) -> dict[str, Callable[..., Any]]:
    import optax

    if kind == "schedules":
        return {name: getattr(optax, name) for name in dir(optax) if name.endswith(("_schedule", "_decay"))}
    plain = {name: getattr(optax, name) for name in dir(optax) if name.islower() and not name.startswith("_")}
    ours = importlib.import_module("turnout.optimizers")
    plain |= {name: getattr(ours, name) for name in names_defined(ours.__name__) if not name.startswith("_")}
    functions = {name: value for name, value in plain.items() if inspect.isfunction(value)}
    return {
        name: function
        for name, function in functions.items()
        if "learning_rate" in inspect.signature(function).parameters and not name.startswith("scale_by")
    }


def _folder(kind: str) -> Any:
    return resources.files("turnout").joinpath(*SHIPPED[kind])


def _shipped(kind: str) -> Iterator[Entry]:
    import tomllib

    for file in _folder(kind).iterdir():
        if file.name.endswith(".toml"):
            title = tomllib.loads(file.read_text(encoding="utf-8")).get("title", "")
            yield Entry(file.name.removesuffix(".toml"), title)


def _of_package(package: str) -> Iterator[Entry]:
    for file in (resources.files("turnout") / package).iterdir():
        stem, module = file.name.removesuffix(".py"), f"turnout.{package}.{file.name.removesuffix('.py')}"
        if not file.name.endswith(".py") or stem.startswith("_"):
            continue
        builder = builder_named(module, stem)
        if builder is not None and (package != "strategies" or "Strategy" in builder.bases):
            parameters = builder.parameters if package == "tasks" else _left_open(builder.parameters)
            traits = builder.constants if package == "strategies" else {}
            yield Entry(stem, summary_of(module), parameters, module, builder.node.name, traits)


def _of_module(module: str) -> Iterator[Entry]:
    for builder in builders_of(module):
        name = builder.node.name
        yield Entry(name.lower(), builder.summary, _left_open(builder.parameters), module, name)


def _left_open(parameters: Defaults) -> Defaults:
    """The arguments that an experiment does not fill in itself."""
    return {name: default for name, default in parameters.items() if name not in FILLED}


def check_experiment(document: dict[str, Any]) -> None:
    """Refuse unknown keys of an experiment, and missing ones."""
    check_keys(document, KEYS)
    for key in NEEDED:
        if key not in document:
            raise ExperimentError(f"{key!r} is missing: every experiment has {', '.join(NEEDED)}")


def check_names(document: dict[str, Any]) -> None:
    """Refuse names of builders that do not exist, and arguments that they do not take.

    Whatever is not a name of ours, or has another shape than it should, is left to those who import it.
    """
    strategies = document["strategies"]
    for number, table in enumerate(strategies if isinstance(strategies, list) else []):
        _check("strategies", table, f"strategies[{number}]", (*OVERRIDES, "label"))
    for name in COMMON_TABLES:
        kind = KINDS.get(name, name)
        if kind in LISTED_KINDS and name in document:
            _check(kind, document[name], name, ())


def _check(kind: str, table: Any, where: str, more: tuple[str, ...]) -> None:
    table = {"name": table} if isinstance(table, str) else table
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or ":" in name:
        return
    entry = entry_named(kind, name, where)
    if kind in PACKAGES:
        given = [key for key in table if key not in ("name", *more, *FILLED)]
        check_keys(given, entry.parameters, where)
