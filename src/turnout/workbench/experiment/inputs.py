"""What an experiment reads beside its own document: tables, traces, images, weights, and modules of the user.

Points that are kept belong to the content of these files. Names are relative to the folder where the run was begun.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import jax

from turnout.files.downloads import FOLDER, given
from turnout.files.opened import MADE, Digests, digest_of, files_opened, is_data, is_installed
from turnout.workbench.experiment import registry
from turnout.workbench.experiment.trust import texts

Inputs = dict[str, str]  # digest by name
IN_DATA_FOLDER = f"${FOLDER}/"  # begins the name of a file there

_read_by_code: dict[str, Digests] = {}  # what modules have read in this process, and may still have in memory


@contextmanager
def in_folder(place: Path | None) -> Iterator[None]:
    """Let relative paths begin in the folder where a run was begun, if it is still there."""
    if place is None or not place.is_dir() or place == Path.cwd():
        yield
        return
    with contextlib.chdir(place):
        yield


@contextmanager
def noted_inputs(document: dict[str, Any]) -> Iterator[Inputs]:
    """The inputs of an experiment, whose objects are built inside; they are known when it ends."""
    inputs: Inputs = {}
    with files_opened() as opened:
        yield inputs
    modules = sorted({text.partition(":")[0] for text in texts(document) if registry.is_code(text)})
    for module in modules:
        read = _read_by_code.setdefault(module, {})
        read |= registry.read_at_import.get(module, {}) | opened
        opened |= read
    paths = [*_sources(modules), *_named_files(document)]
    digests = opened | {path: digest for path in paths if (digest := digest_of(path)) is not None}
    programs = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    inputs |= {_name(path): digest for path, digest in digests.items() if not (programs and path.startswith(programs))}


def changed_since(before: Inputs, place: Path | None = None) -> str | None:
    """What became of the first file that is no longer as it was; None if all are."""
    with in_folder(place):
        for name, digest in before.items():
            if digest != MADE and (now := digest_of(_path(name))) != digest:
                return f"{name} is gone" if now is None else f"{name} has changed"
    return None


def differing(before: Inputs, now: Inputs) -> str | None:
    """In what the inputs of the same experiment differ: its first such file; None if they are the same.

    Another folder is no difference. A file that is no longer read is none either: what was made of it may be.
    """
    known = {(Path(name).name, digest) for name, digest in before.items()}
    for name, digest in now.items():
        if name in before and before[name] not in (MADE, digest) and digest != MADE:
            return f"{name} has changed"
        if name not in before and digest != MADE and (Path(name).name, digest) not in known:
            return f"{name} is new"
    return None


def _named_files(document: dict[str, Any]) -> Iterator[str]:
    """Files that an argument names, however they are read."""
    for text in texts(document):
        path = os.path.abspath(text) if os.path.isfile(text) else given(text)
        if path is not None and os.path.isfile(path) and is_data(str(path)):
            yield str(path)


def _sources(modules: Iterable[str]) -> Iterator[str]:
    """The sources of modules, and of all that they import and that is not installed."""
    named = set(modules)
    waiting, seen = sorted(named), set[str]()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        file = _source(module)
        if file is None or (is_installed(file) and module not in named):
            continue
        yield file
        if not is_installed(file):
            waiting += [name for name in _imported(module, file) if name not in seen]


def _source(module: str) -> str | None:
    """The file of a module of Python; nothing is run but what `import` would run above it."""
    spec = _spec(module)
    file = (spec.origin if spec is not None else None) or ""
    return os.path.abspath(file) if file.endswith(".py") else None


def _spec(module: str) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):
        return sys.modules[module].__spec__ if module in sys.modules else importlib.util.find_spec(module)
    return None


def _is_of_the_user(package: str) -> bool:
    """Whether a package or module was not installed."""
    spec = _spec(package)
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin or ""]
    return any(os.path.exists(place) and not is_installed(os.path.join(place, "")) for place in places)


def _imported(module: str, file: str) -> set[str]:
    """The names of all modules of the user that a source may import, and of the packages around them."""
    package = module if file.endswith("__init__.py") else module.rpartition(".")[0]
    names = {package} - {""}
    with suppress(SyntaxError):
        names |= _names_in(ast.parse(Path(file).read_bytes()), package)
    tops = {top: _is_of_the_user(top) for top in {name.partition(".")[0] for name in names}}
    return {name for name in names if tops[name.partition(".")[0]]}


def _names_in(tree: ast.Module, package: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            with suppress(ImportError, ValueError):  # an import that reaches above its package
                base = importlib.util.resolve_name(base, package) if node.level else base
                names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


def _name(path: str) -> str:
    """How a file is called wherever the run goes on: by its path in the nearest of two folders, if it is in one."""
    data = os.environ.get(FOLDER)
    folders = {os.getcwd(): ""} | ({os.path.abspath(os.path.expanduser(data)): IN_DATA_FOLDER} if data else {})
    around = [folder for folder in folders if path.startswith(f"{folder}{os.sep}")]
    nearest = max(around, key=len, default=None)
    return path if nearest is None else folders[nearest] + os.path.relpath(path, nearest)


def _path(name: str) -> str:
    """The file of that name now."""
    if name.startswith(IN_DATA_FOLDER):
        return os.path.join(os.path.expanduser(os.environ.get(FOLDER, "")), name.removeprefix(IN_DATA_FOLDER))
    return os.path.abspath(name)
