"""The documentation as a site: every public name is in the reference, and pages need no network."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOWER = "turnout.flower"  # may not be installed
REFERENCE = ROOT / "docs" / "api"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPENED = ("index.html", "concepts.html", "theory/bias.html", "api/strategies.html", "repo/experiments/index.html")
ALONE = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@pytest.mark.parametrize(
    "package",
    [
        "turnout",
        *(f"turnout.{name}" for name in ("strategies", "availability", "tasks", "theory", "testing", "flower")),
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
        assert f"images/{image.name})" in pages
        assert image.stem.startswith("demo_") or f'"{image.stem}": {image.stem}' in drawn


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    folder = tmp_path_factory.mktemp("site")
    program = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(program, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def opened(address: str, width: int, home: Path) -> tuple[str, str, list[str]]:
    """The page after its scripts have run, what it complained of, and which addresses were asked for."""
    log = home / "net.json"
    options = [
        f"--user-data-dir={home}",
        f"--window-size={width},900",
        f"--log-net-log={log}",
        "--enable-logging=stderr",
    ]
    done = subprocess.run(
        [CHROMIUM, *ALONE, *options, "--virtual-time-budget=8000", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    asked = re.findall(r'site=file://[^}]*\}","url":"(https?:[^"]+)"', log.read_text())
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line), asked


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", OPENED)
def test_a_page_opens_from_a_file_without_complaint_or_request(site, tmp_path, page, width):
    shown, complaints, asked = opened(f"file://{site / page}", width, tmp_path)
    assert "<h1" in shown
    assert (complaints, asked) == ("", [])


@pytest.mark.browser
def test_a_request_would_be_seen(site, tmp_path):
    (tmp_path / "page.html").write_text('<script src="https://example.org/x.js"></script><script>absent()</script>')
    _, complaints, asked = opened(f"file://{tmp_path / 'page.html'}", 1280, tmp_path)
    assert set(asked) == {"https://example.org/x.js"}
    assert "absent" in complaints


@pytest.mark.browser
def test_the_search_works_from_a_file(site, tmp_path):
    shown, complaints, _ = opened(f"file://{site / 'index.html'}?q=separation", 1280, tmp_path)
    assert re.search(r"\d+ matching documents", shown)
    assert complaints == ""


@pytest.mark.browser
def test_nothing_of_the_site_is_fetched_from_elsewhere(site):
    loading = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?https?:|@import|url\(["']?https?:""")
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 100
    assert not [page.name for page in pages if loading.search(page.read_text())]
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("CA-Fed" in entry["title"] for entry in index["docs"])
