"""What the site has beyond the pages of this folder: files of the repository, maths without a script, navigation.

Pages link to one another and to files of the repository by relative paths, as a code host reads them. In the site a
file of the repository outside `docs` lies under `repo`, in its own place: pages and results as they are, programs as a
page that shows them. Only links that cross the border of `docs` are rewritten.
"""

import html
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
OUTSIDE = "repo"
SHOWN = {".py": "python", ".bib": "bibtex"}  # as a page; anything else is a file to look at or to load
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "experiments/README.md")  # in the navigation
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
MATHS = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out `folder/*` in the navigation: all its pages, by title."""
    config.nav = list(_unfolded(config.nav or []))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside of `docs`, and what those pages link to in turn."""
    waiting = {target for file in files.documentation_pages() for target in _outside(file)} | set(PAGES)
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        done.add(path)
        file = _file(path, config)
        files.append(file)
        if path.endswith(".md"):
            waiting |= set(_outside(file)) - done
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links across the border of `docs` to where the site has what they mean."""

    def moved(link: re.Match[str]) -> str:
        opening, target, end = link.groups()
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        found = _in_site(_resolved(page.file.src_uri, target))
        return opening + quote(posixpath.relpath(found, posixpath.dirname(page.file.src_uri) or ".")) + end

    return "".join(part if part.startswith("`") else LINK.sub(moved, part) for part in CODE.split(markdown))


def on_page_content(content: str, **_: object) -> str:
    """Set formulas as MathML, which browsers show by themselves."""

    def shown(maths: re.Match[str]) -> str:
        formula = html.unescape(maths[2])
        if maths[1] == "span":
            return convert(formula)
        return f'<div class="maths">{convert(formula, display="block")}</div>'

    return MATHS.sub(shown, content)


def _unfolded(entries: list) -> Iterator[object]:
    for entry in entries:
        if isinstance(entry, dict):
            yield {
                title: list(_unfolded(inside)) if isinstance(inside, list) else inside
                for title, inside in entry.items()
            }
        elif entry.endswith("/*"):
            folder = ROOT / "docs" / entry[:-2]
            yield from sorted(f"{entry[:-1]}{page.name}" for page in folder.glob("*.md") if page.name != "README.md")
        else:
            yield entry


def _outside(file: File) -> Iterator[str]:
    """Paths in the repository, outside of `docs`, that a page links to."""
    text = "".join(part for part in CODE.split(file.content_string) if not part.startswith("`"))
    for _, target, _ in LINK.findall(text):
        if "://" not in target and not target.startswith("mailto:"):
            path = _resolved(file.src_uri, target)
            if not path.startswith("docs/"):
                yield path


def _resolved(src_uri: str, target: str) -> str:
    """The path in the repository that a link on a page of the site means; a folder means its README."""
    inside = src_uri.removeprefix(f"{OUTSIDE}/") if src_uri.startswith(f"{OUTSIDE}/") else f"docs/{src_uri}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(inside), unquote(target)))
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def _in_site(path: str) -> str:
    """Where the site has a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{OUTSIDE}/{path}" + (".md" if Path(path).suffix in SHOWN else "")


def _file(path: str, config: MkDocsConfig) -> File:
    suffix = Path(path).suffix
    inclusion = InclusionLevel.UNDEFINED if path in PAGES else InclusionLevel.NOT_IN_NAV
    if suffix not in SHOWN:
        return File.generated(config, _in_site(path), abs_src_path=os.fspath(ROOT / path), inclusion=inclusion)
    code = (ROOT / path).read_text(encoding="utf-8")
    shown = f"# {path}\n\n```{SHOWN[suffix]}\n{code}```\n"
    return File.generated(config, _in_site(path), content=shown, inclusion=inclusion)
