"""The code that the README and the docs show runs as it stands."""

import re
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parent.parent


def python_of(page):
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))


@pytest.fixture(autouse=True)
def as_a_user():
    """Users do not run with the strictness of these tests."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_readme():
    exec(compile(python_of("README.md"), "README.md", "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/simulate.md", "docs/extend.md", "docs/tasks.md", "docs/diagnose.md"])
def test_page(page):
    code = python_of(page)
    assert code
    exec(compile(code, page, "exec"), {"__name__": "docs"})
