"""The documentation as a site, in a browser: pages open from files, alone, on a wide screen and a narrow one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]
OPENED = ("index.html", "concepts.html", "theory/bias.html", "api/strategies.html", "repo/experiments/index.html")

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    program = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(program, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def from_elsewhere(requests):
    return [address for address in requests if not address.startswith(("file:", "data:", "blob:"))]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", OPENED)
def test_a_page_opens_from_a_file_without_complaint_or_request(browser, site, page, width, dark):
    browser.open(site / page, width=width, dark=dark)
    assert browser.errors == []
    assert from_elsewhere(browser.requests) == []
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def test_a_request_would_be_seen(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<script src="https://example.org/x.js"></script><script>absent()</script>')
    browser.open(page)
    assert from_elsewhere(browser.requests) == ["https://example.org/x.js"]
    assert any("absent" in error for error in browser.errors)


def test_the_search_works_from_a_file(browser, site):
    browser.open(site / "index.html", query="?q=separation")
    found = "document.querySelector('[data-md-component=search-result]').innerText"
    look = f"new Promise(done => {{ const look = () => /matching/.test({found}) ? done({found}) : setTimeout(look, 50)"
    assert re.search(r"\d+ matching documents", browser.run(f"{look}; look(); }})"))
    assert browser.errors == []


def test_nothing_of_the_site_is_fetched_from_elsewhere(site):
    loading = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?https?:|@import|url\(["']?https?:""")
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 100
    assert not [page.name for page in pages if loading.search(page.read_text())]
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("CA-Fed" in entry["title"] for entry in index["docs"])
