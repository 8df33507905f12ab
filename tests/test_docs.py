"""The code that the README and the docs show runs as it stands."""

import re
from pathlib import Path

import jax
import pytest

from turnout.reproduction.claim import read_claim

ROOT = Path(__file__).parent.parent
PAGES = [f"docs/{page}.md" for page in ("simulate", "audit", "diagnose", "extend", "tasks", "reproduce")]


def python_of(page):
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))


@pytest.fixture(autouse=True)
def as_a_user():
    """Users do not run with the strictness of these tests."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_readme():
    exec(compile(python_of("README.md"), "README.md", "exec"), {})


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs" / "theory").glob("*.md")))
def test_theory(page):
    exec(compile(python_of(f"docs/theory/{page}"), page, "exec"), {"__name__": "docs"})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page(page):
    code = python_of(page)
    assert code
    exec(compile(code, page, "exec"), {"__name__": "docs"})


def test_the_claim_of_the_docs_is_one(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/reproduce.md").read_text(), re.S)
    path = tmp_path / "my_claim.toml"
    path.write_text(example)
    assert len(read_claim(path, "quick").panels["mild"].seeds) == 3
    assert len(read_claim(path, "full").panels["strong"].seeds) == 10
