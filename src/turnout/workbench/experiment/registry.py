"""Builders by name, with no registration: a file in the right folder is enough.

Names, summaries and parameters are read from the source and nothing is imported, so a listing is instant. Only `find`
imports, and only the one module that is asked for.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from turnout.errors import nearest
from turnout.workbench.experiment.errors import ExperimentError

PACKAGES = ("strategies", "availability", "tasks", "uploads")  # one builder per file, with the name of the file
MODULES = {"links": "world.links", "compute": "world.compute", "facts": "server.facts"}  # several builders in one file
SHIPPED = {
    "experiments": ("workbench", "experiment", "library"),
    "claims": ("workbench", "reproduction", "claims"),
}  # folders of TOML files
KINDS = (*PACKAGES, *MODULES, *SHIPPED)
Fields = dict[str, ast.expr | None]  # arguments with their defaults, None where one must be given
# Modules of ours whose builders have no shorter name:
OURS = ("turnout.optimizers", "turnout.workbench.experiment.deployed", "turnout.workbench.reproduction.variants")
FILLED = ("num_clients", "sizes", "batch_size")  # arguments that an experiment fills in itself


@dataclass(frozen=True)
class Entry:
    """One thing that an experiment can name."""

    name: str
    summary: str  # first line of its docstring
    parameters: tuple[str, ...] = ()  # as in the source: `cutoff = 50.0`, or a name alone where it must be given
    module: str = ""
    attribute: str = ""
    traits: dict[str, Any] = field(default_factory=dict)  # constants of a strategy's class: needs, references, …


@functools.cache
def entries(kind: str) -> dict[str, Entry]:
    """All entries of a kind, by name."""
    if kind not in KINDS:
        raise ExperimentError(f"there is no kind {kind!r}: {nearest(kind, KINDS)}")
    if kind in SHIPPED:
        listed = _shipped(kind)
    elif kind in PACKAGES:
        listed = _of_package(kind)
    else:
        listed = _of_module(MODULES[kind])
    return {entry.name: entry for entry in sorted(listed, key=lambda entry: entry.name)}


def find(kind: str, name: str, where: str) -> Callable[..., Any]:
    """The builder of that name; `module:attribute` is anything that can be imported."""
    if ":" in name:
        return _imported(name, where)
    if kind in ("optimizers", "schedules"):
        builders = _of_optax(kind)
        if name not in builders:
            raise ExperimentError(f"{where}: there is no {name!r} among optax's {kind}: {nearest(name, builders)}")
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
    defined = {node.name for node in _source(module).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return attribute not in defined or attribute.startswith("_")


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


def _imported(name: str, where: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        builder = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ExperimentError(f"{where}: cannot import {name!r}: {error}") from error
    if not callable(builder):
        raise ExperimentError(f"{where}: {name!r} is not a class or a function")
    return builder


@functools.cache
def _of_optax(kind: str) -> dict[str, Callable[..., Any]]:
    import optax

    if kind == "schedules":
        return {name: getattr(optax, name) for name in dir(optax) if name.endswith(("_schedule", "_decay"))}
    plain = {name: getattr(optax, name) for name in dir(optax) if name.islower() and not name.startswith("_")}
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
        stem = file.name.removesuffix(".py")
        if not file.name.endswith(".py") or stem.startswith("_"):
            continue
        module = f"turnout.{package}.{stem}"
        source = _source(module)
        if (builder := _builder(source, stem)) is not None:
            skip = () if package == "tasks" else FILLED
            traits = _traits(builder) if package == "strategies" else {}
            yield Entry(stem, _summary(source), _parameters(builder, source, skip), module, builder.name, traits)


@functools.cache
def _source(module: str) -> ast.Module:
    """The source of one of our modules."""
    folder = resources.files("turnout").joinpath(*module.split(".")[1:-1])
    return ast.parse((folder / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8"))


def _traits(builder: ast.FunctionDef | ast.ClassDef) -> dict[str, Any]:
    """Constants of a strategy's class over those of `Strategy`; what it computes is left out."""
    common = next(node for node in _classes(_source("turnout.strategies.base")) if node.name == "Strategy")
    members = dict(_members(common)) | dict(_members(builder))
    constants = {name: node for name, node in members.items() if isinstance(node, ast.Constant | ast.Tuple)}
    return {name: ast.literal_eval(node) for name, node in constants.items()}


def _members(cls: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """Class variables with their values, and methods."""
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and "ClassVar" in ast.unparse(node.annotation):
            yield ast.unparse(node.target), node.value or ast.Constant(None)
        elif isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), node.value
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def _builder(source: ast.Module, stem: str) -> ast.FunctionDef | ast.ClassDef | None:
    for node in source.body:
        if isinstance(node, ast.FunctionDef) and node.name == stem:
            return node
    return next((node for node in _classes(source) if node.name.lower() == stem.replace("_", "")), None)


def _of_module(module: str) -> Iterator[Entry]:
    """Lower-case functions of `__all__`, or else the classes that derive from another class of the file."""
    source = _source(f"turnout.{module}")
    public = _all(source)
    for node in source.body:
        if isinstance(node, ast.FunctionDef) and node.name.islower() and node.name in public:
            name = node.name
        elif not public and isinstance(node, ast.ClassDef) and _derives(node, source):
            name = node.name.lower()
        else:
            continue
        yield Entry(name, _summary(node), _parameters(node, source, FILLED), f"turnout.{module}", node.name)


def _all(source: ast.Module) -> set[str]:
    for node in source.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def _derives(node: ast.ClassDef, source: ast.Module) -> bool:
    local = {other.name for other in _classes(source)}
    return any(ast.unparse(base).partition("[")[0] in local for base in node.bases)


def _classes(source: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in source.body if isinstance(node, ast.ClassDef))


def _summary(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _parameters(builder: ast.FunctionDef | ast.ClassDef, source: ast.Module, skip: tuple[str, ...]) -> tuple[str, ...]:
    fields = _fields(builder, source) if isinstance(builder, ast.ClassDef) else _arguments(builder, source)
    return tuple(
        name if default is None else f"{name} = {ast.unparse(default)}"
        for name, default in fields.items()
        if name not in skip
    )


def _arguments(function: ast.FunctionDef, source: ast.Module) -> Fields:
    """Arguments of a function, its own or the fields of the class in its decorator `with_arguments_of`."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "with_arguments_of":
            return _fields_of(ast.unparse(decorator.args[0]), source)
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults, *given.kw_defaults]
    return {argument.arg: default for argument, default in zip([*plain, *given.kwonlyargs], defaults, strict=True)}


def _fields_of(name: str, source: ast.Module) -> Fields:
    """Fields of a class by its name, defined in this source or in one of ours that it imports from; else none."""
    for node in source.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _fields(node, source)
        if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
            ours = (node.module or "").startswith("turnout.")
            return _fields_of(name, _source(str(node.module))) if ours else {}
    return {}


def _fields(cls: ast.ClassDef, source: ast.Module) -> Fields:
    """Arguments of a dataclass in their order: those of its base classes first, with defaults that it may change."""
    fields: Fields = {}
    for base in cls.bases:
        fields |= _fields_of(ast.unparse(base).partition("[")[0], source)
    inherited = dict(fields)
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
            name, default = ast.unparse(node.target), node.value
            is_field = isinstance(default, ast.Call) and ast.unparse(default.func).rpartition(".")[2] == "field"
            keywords = default.keywords if is_field and isinstance(default, ast.Call) else []
            options = {word.arg: word.value for word in keywords}
            if "init" in options and not ast.literal_eval(options["init"]):
                fields.pop(name, None)
            else:  # eqx.field(static=True, default=…), or the default itself
                fields[name] = options.get("default") if is_field else default
    if any(fields[name] is None for name in fields if name not in inherited) and any(inherited.values()):
        # After defaults, a field can only be required if those before it are given by keyword alone: they come last.
        return {name: fields[name] for name in sorted(fields, key=inherited.__contains__)}
    return fields
