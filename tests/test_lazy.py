"""Public names are imported on first use, and stand where type checkers, `dir` and readers look for them."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import turnout

PACKAGES = ("turnout", "turnout.workbench")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package):
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'absent'"):
        module.absent  # noqa: B018


@pytest.mark.parametrize("package", [*PACKAGES, "turnout.flower"])
def test_type_checkers_and_readers_are_told_the_same_names(package):
    file = Path(turnout.__file__).parent.joinpath(*package.split(".")[1:], "__init__.py")
    tree = ast.parse(file.read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {alias.asname or alias.name for node in block.body for alias in node.names}
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert told == set(public)


def test_nothing_heavy_is_imported_before_it_is_used():
    code = "import sys, turnout.workbench; print({'jax', 'polars', 'altair', 'numpy'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "set()"
