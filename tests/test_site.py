"""What the documentation holds: every public name is in the reference, every picture on a page."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOWER = "turnout.flower"  # may not be installed
REFERENCE = ROOT / "docs" / "api"


@pytest.mark.parametrize(
    "package",
    [
        "turnout",
        *(
            f"turnout.{name}"
            for name in ("strategies", "availability", "tasks", "theory", "testing", "uploads", "workbench", "flower")
        ),
    ],
)
def test_public_names_are_in_the_reference(package):
    pages = "\n".join(page.read_text() for page in REFERENCE.glob("*.md"))
    public = importlib.import_module(package)
    modules = type(importlib)
    names = [name for name in public.__all__ if package == FLOWER or not isinstance(getattr(public, name), modules)]
    missing = [name for name in names if f"::: {package}.{name}\n" not in pages + "\n"]
    assert not missing


def test_the_reference_names_only_what_there_is():
    for page in REFERENCE.glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            assert name.startswith(FLOWER) or hasattr(importlib.import_module(module), attribute), name


def test_pictures_are_used_and_can_be_drawn_again():
    pages = "\n".join(page.read_text() for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
    drawn = (ROOT / "docs" / "pictures.py").read_text()
    for image in (ROOT / "docs" / "images").iterdir():
        assert re.search(rf'images/{re.escape(image.name)}[)"]', pages), image.name
        assert image.stem.startswith("demo_") or f'"{image.stem}": {image.stem}' in drawn
