"""Our builders as their source describes them. Nothing is imported, so that listings are instant.

`signatures` reads the same from a builder that is imported, with its types; a test holds them together.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

Node = ast.FunctionDef | ast.ClassDef
Defaults = dict[str, str | None]  # of arguments, as in the source; None where a value must be given


@dataclass(frozen=True)
class Builder:
    """A function or a class of one of our modules."""

    module: str
    node: Node

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return _first_line(self.node)

    @property
    def bases(self) -> list[str]:
        """The classes from which it derives; none for a function."""
        return _bases(self.node) if isinstance(self.node, ast.ClassDef) else []

    @property
    def parameters(self) -> Defaults:
        """Its arguments, in their order; those of the class in its decorator `with_arguments_of`, if it has one."""
        if isinstance(self.node, ast.ClassDef):
            return _fields(self.node, self.module)
        for decorator in self.node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "with_arguments_of":
                return _fields_of(ast.unparse(decorator.args[0]), self.module)
        given = self.node.args
        plain = [*given.posonlyargs, *given.args]
        defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults, *given.kw_defaults]
        names = [argument.arg for argument in (*plain, *given.kwonlyargs)]
        return {name: _text(default) for name, default in zip(names, defaults, strict=True)}

    @property
    def constants(self) -> dict[str, Any]:
        """Class variables whose values are literals, those of `Strategy` included; what it computes is left out."""
        common = next(node for node in _classes("turnout.strategies.base") if node.name == "Strategy")
        members = {**dict(_members(common)), **dict(_members(self.node))}
        literals = {name: node for name, node in members.items() if isinstance(node, ast.Constant | ast.Tuple)}
        return {name: ast.literal_eval(node) for name, node in literals.items()}


def builder_named(module: str, stem: str) -> Builder | None:
    """The builder of a module that has one, with the name of the file: a function, or a class in its own spelling."""
    functions = [node for node in _defined(module) if isinstance(node, ast.FunctionDef) and node.name == stem]
    classes = [node for node in _classes(module) if node.name.lower() == stem.replace("_", "")]
    return next((Builder(module, node) for node in (*functions, *classes)), None)


def builders_of(module: str) -> Iterator[Builder]:
    """Lower-case functions of `__all__`, or else the classes that derive from another class of the module."""
    public, classes = _all(module), {node.name for node in _classes(module)}
    defined = _defined(module)
    functions = [node for node in defined if isinstance(node, ast.FunctionDef) and node.name in public]
    derived = [node for node in _classes(module) if any(base in classes for base in _bases(node))]
    yield from (Builder(module, node) for node in functions or derived)


def names_defined(module: str) -> set[str]:
    """The functions and classes that one of our modules defines."""
    return {node.name for node in _defined(module)}


def summary_of(module: str) -> str:
    """The first line of a module's docstring."""
    return _first_line(_tree(module))


@functools.cache
def _tree(module: str) -> ast.Module:
    *folders, name = module.split(".")[1:]
    folder = resources.files("turnout").joinpath(*folders)
    file = folder / f"{name}.py"
    return ast.parse((file if file.is_file() else folder / name / "__init__.py").read_text(encoding="utf-8"))


def _defined(module: str) -> list[Node]:
    return [node for node in _tree(module).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def _classes(module: str) -> list[ast.ClassDef]:
    return [node for node in _defined(module) if isinstance(node, ast.ClassDef)]


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0] for base in node.bases]


def _first_line(node: ast.Module | Node) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def _text(default: ast.expr | None) -> str | None:
    return None if default is None else ast.unparse(default)


def _all(module: str) -> set[str]:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def _members(cls: Node) -> Iterator[tuple[str, ast.AST]]:
    """Class variables with their values, and methods."""
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and "ClassVar" in ast.unparse(node.annotation):
            yield ast.unparse(node.target), node.value or ast.Constant(None)
        elif isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), node.value
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def _fields_of(name: str, module: str) -> Defaults:
    """Fields of a class by its name, defined in this module or in one of ours that it imports from; else none."""
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _fields(node, module)
        if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
            ours = (node.module or "").startswith("turnout.")
            return _fields_of(name, str(node.module)) if ours else {}
    return {}


def _fields(cls: ast.ClassDef, module: str) -> Defaults:
    """Arguments of a dataclass in their order: those of its base classes first, with defaults that it may change."""
    fields: Defaults = {}
    for base in _bases(cls):
        fields |= _fields_of(base, module)
    inherited = dict(fields)
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
            name = ast.unparse(node.target)
            if (default := _default(node.value)) is _LEFT_OUT:
                fields.pop(name, None)
            else:
                fields[name] = default
    if any(fields[name] is None for name in fields if name not in inherited) and any(inherited.values()):
        # After defaults, a field can only be required if those before it are given by keyword alone: they come last.
        return {name: fields[name] for name in sorted(fields, key=inherited.__contains__)}
    return fields


_LEFT_OUT = "(not an argument)"


def _default(value: ast.expr | None) -> str | None:
    """The default of a field: the value itself, or that in `eqx.field(static=True, default=…)` and `per_client()`."""
    maker = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    if maker not in ("field", "per_client") or not isinstance(value, ast.Call):
        return _text(value)
    options = {word.arg: word.value for word in value.keywords}
    if "init" in options and not ast.literal_eval(options["init"]):
        return _LEFT_OUT
    return _text(options.get("default")) or ("None" if maker == "per_client" else None)
