"""Mutation testing: change one operator or number of the source at a time, and see whether a test fails.

    python tests/mutation.py theory strategies --each 6     # make test-mutants; an hour or two

For every file of these rooms so many changes are drawn (seeded). Each is tried in a copy of the source with the tests
of the same room that name something of the file. A change that no test notices is a survivor: it is printed, with its
line, to be judged by hand, for a change may be one that alters nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OTHER_OPERATOR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
OTHER_NAME = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "ones_like": "zeros_like"}
OTHER_NAME |= {"zeros_like": "ones_like", "ones": "zeros", "zeros": "ones", "any": "all", "all": "any"}


def changes(tree: ast.AST) -> Iterator[tuple[ast.AST, str, object]]:
    """Node, field and new value of every change; text and annotations are left alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OTHER_OPERATOR:
            if not (isinstance(node, ast.BinOp) and _is_type(node)):
                yield node, "op", OTHER_OPERATOR[type(node.op)]()
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_OPERATOR:
            yield node, "ops", [OTHER_OPERATOR[type(node.ops[0])](), *node.ops[1:]]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield node, "value", (not node.value) if type(node.value) is bool else node.value + 1
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, "op", ast.UAdd() if isinstance(node.op, ast.USub) else _Same()
        elif isinstance(node, ast.Attribute) and node.attr in OTHER_NAME:
            yield node, "attr", OTHER_NAME[node.attr]
        elif isinstance(node, ast.Name) and node.id in OTHER_NAME:
            yield node, "id", OTHER_NAME[node.id]


class _Same(ast.Not):
    """`not not`: the operand as it is."""


def _is_type(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(part, ast.Constant) and part.value is None for part in (node.left, node.right)
    )


def mutants(source: str, count: int, seed: int) -> list[tuple[int, str, str]]:
    """Line, description and whole text of drawn changes."""
    tree = ast.parse(source)
    everything = list(changes(tree))
    drawn = []
    for node, field, value in random.Random(seed).sample(everything, min(count, len(everything))):
        before, shown = getattr(node, field), ast.unparse(node)
        if isinstance(value, _Same):
            replaced = ast.unparse(tree).replace(shown, f"({ast.unparse(node.operand)})", 1)
            drawn.append((node.lineno, f"{shown}  ->  {ast.unparse(node.operand)}", replaced))
            continue
        setattr(node, field, value)
        drawn.append((node.lineno, f"{shown}  ->  {ast.unparse(node)}", ast.unparse(tree)))
        setattr(node, field, before)
    return drawn


def tests_of(path: Path, room: str) -> list[str]:
    """Test files of the room that name something that the file defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {path.stem}
    files = sorted((ROOT / "tests" / room).glob("test_*.py"))
    return [str(file) for file in files if any(name in file.read_text(encoding="utf-8") for name in names)]


def is_noticed(source: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    surroundings = os.environ | {"PYTHONPATH": str(source)}
    try:
        return subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, timeout=600).returncode != 0
    except subprocess.TimeoutExpired:
        return True  # a loop without end is noticed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="+")
    parser.add_argument("--each", type=int, default=6, help="changes per file")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    tried = survived = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        for room in chosen.rooms:
            for path in sorted((source / "turnout" / room).glob("*.py")):
                text, tests = path.read_text(encoding="utf-8"), tests_of(path, room)
                if not tests:
                    print(f"{room}/{path.name}: no test of the room names it", flush=True)
                    continue
                for line, change, mutant in mutants(text, chosen.each, chosen.seed):
                    path.write_text(mutant, encoding="utf-8")
                    noticed = is_noticed(source, tests)
                    tried, survived = tried + 1, survived + (not noticed)
                    if not noticed:
                        print(f"{room}/{path.name}:{line}: {change}", flush=True)
                path.write_text(text, encoding="utf-8")
                print(f"  {room}/{path.name}: {tried} tried, {survived} survived so far", flush=True)


if __name__ == "__main__":
    main()
