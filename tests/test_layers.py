"""Imports point one way: a part of the library sees only the parts below it."""

import ast
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnout
from turnout import strategies
from turnout.strategies import Strategy

SOURCE = Path(turnout.__file__).parent
ROOT = "turnout"

# Three rings, each from the ground up. A part may import from every layer below its own, and nothing from its own but
# itself. The core sees neither of the others, the workbench no real nodes.
CORE = (
    {"errors", "lazy", "packing"},
    {"types"},
    {"declarations"},
    {"metrics", "optimizers", "presented", "statistics", "streams", "tree"},
    {"files", "paces"},
    {"availability", "strategies", "tasks", "uploads"},
    {"world", "server", "theory"},
    {"simulator"},
    {"auditor"},
    {"testing"},
)
WORKBENCH = ({"diagnosis"}, {"experiment"}, {"reproduction"}, {"benchmark"}, {"report"}, {"workbench"})
NODES = ({"flower"},)
# The public names are above all rings, and so is the command line, the part of the workbench that calls them.
LAYERS = (*CORE, *WORKBENCH, *NODES, {ROOT}, {"cli"}, {"__main__"})
# Parts that see even less than what lies below them.
NARROW = {
    "files": {"errors"},
    "availability": {"errors", "types", "files", "declarations"},
    "strategies": {"types", "tree", "declarations"},
    "tasks": {"errors", "types", "streams", "tree", "metrics", "files", "declarations"},
    "paces": {"types", "declarations"},
    "theory": {"types", "availability", "paces", "declarations"},
    "server": {"errors", "types", "optimizers", "streams", "tree", "strategies", "availability", "declarations"},
    "uploads": {"types", "streams", "tree", "declarations"},
    "world": {"types", "streams", "tree", "availability", "declarations"},
}
HEAVY = {"altair", "flwr", "polars", "pooch", "ray", "rich", "sklearn", "typer", "vl_convert"}
VAGUE = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}

FILES = sorted(path for path in SOURCE.rglob("*.py") if "starter" not in path.parts)  # which is a user's, once copied


def allowed(part: str) -> set[str]:
    if part in NARROW:
        return NARROW[part]
    (level,) = (level for level, layer in enumerate(LAYERS) if part in layer)
    return set().union(*LAYERS[:level])


def part_of(path: Path) -> str:
    first, *more = path.relative_to(SOURCE).with_suffix("").parts
    return ROOT if first == "__init__" else _room(first, *more)


def _room(first: str, *more: str) -> str:
    """The part by its path: a room of the workbench, or else what stands at the top."""
    inside = first == "workbench" and more and any(more[0] in layer for layer in LAYERS)
    return more[0] if inside else first


def parts_imported(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and part of every import of ours, wherever it stands; `package` is what a leading dot means."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == ROOT and not rest.startswith("__version__"):
                part = _room(*rest.split("."))
                yield node.lineno, part if any(part in layer for layer in LAYERS) else ROOT


def parts_named(source: str) -> Iterator[tuple[int, str]]:
    """Line and part of every import of ours by a name in quotes, which waits until it is needed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            if isinstance(name, ast.Constant) and str(name.value).startswith(f"{ROOT}."):
                yield node.lineno, _room(*str(name.value).split(".")[1:])


def package_of(path: Path) -> str:
    return ".".join((ROOT, *path.relative_to(SOURCE).parent.parts))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    part = part_of(path)
    assert any(part in layer for layer in LAYERS), f"{part} is new: give it a place in LAYERS"
    seen = allowed(part) | {part}
    back = [
        f"line {line}: {part} imports {other}"
        for line, other in parts_imported(path.read_text(), package_of(path))
        if other not in seen
    ]
    assert not back, f"{path.name} imports from its own layer or above: {'; '.join(back)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_name_in_quotes_is_no_way_around(path):
    part = part_of(path)
    seen = allowed(part) | {part}
    back = {other for _, other in parts_named(path.read_text()) if other not in seen}
    assert not back, f"{path.name} imports {back} from above by name: turn it around"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import turnout.server.server", {"server"}),
        ("from turnout import server, tree", {"server", "tree"}),
        ("from turnout.world.links import perfect", {"world"}),
        ("def late():\n    from turnout.workbench.report import html", {"report"}),
        ("from turnout.workbench import Look", {"workbench"}),
        ("from turnout import FedAvg", {ROOT}),
        ("import turnout", {ROOT}),
        ("from . import sampling", {"strategies"}),
        ("from ..server import Server", {"server"}),
        ("from turnout import __version__", set()),
        ("import turnouts, jax", set()),
    ],
)
def test_every_way_to_import_is_seen(statement, found):
    assert {part for _, part in parts_imported(statement, "turnout.strategies")} == found


def test_siblings_do_not_see_each_other():
    siblings = {"availability", "strategies", "tasks", "uploads"}
    for part in siblings:
        assert not allowed(part) & siblings


def test_narrow_parts_see_no_more_than_their_layer():
    for part, seen in NARROW.items():
        (level,) = (level for level, layer in enumerate(LAYERS) if part in layer)
        assert seen <= set().union(*LAYERS[:level])


def test_the_core_sees_neither_of_the_other_rings():
    around = set().union(*WORKBENCH, *NODES, {"cli"})
    for part in set().union(*CORE):
        assert not allowed(part) & around


def test_simulating_loads_no_reporting_library():
    program = "import sys, turnout, turnout.simulator; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_no_strategy_inherits_from_another():
    for module in pkgutil.iter_modules(strategies.__path__, f"{strategies.__name__}."):
        for name, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, Strategy) and found is not Strategy:
                ancestors = [base for base in found.__mro__[1:] if issubclass(base, Strategy)]
                assert ancestors == [Strategy], (
                    f"{name} inherits from {ancestors[0].__name__}; share a function instead"
                )


def test_no_module_has_a_vague_name():
    assert not [path for path in SOURCE.rglob("*") if path.stem.strip("_") in VAGUE]


def test_two_classes_never_share_a_name():
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    shared = {name: files for name, files in homes.items() if len(files) > 1}
    assert not shared, f"one name for two things: {shared}"
