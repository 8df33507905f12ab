"""The page that follows one round names functions that are there, each once, in the file that it links to."""

import ast
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "one_round.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| \[`([\w.]+)`\]\(([^)]+)\)", PAGE, re.M)


def defined_in(path):
    """Functions of a file, and methods as `Class.method`."""
    body = ast.parse(path.read_text()).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for cls in (node for node in body if isinstance(node, ast.ClassDef)):
        names |= {f"{cls.name}.{node.name}" for node in cls.body if isinstance(node, ast.FunctionDef)}
    return names


@pytest.mark.parametrize(("name", "link"), [row[1:] for row in ROWS], ids=[row[1] for row in ROWS])
def test_the_function_is_where_the_page_says(name, link):
    assert name in defined_in(DOCS / link)


def test_each_function_has_one_row_in_order():
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len({name for _, name, _ in ROWS}) == len(ROWS) > 25
