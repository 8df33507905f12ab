"""The files around the code stay true: pages exist, links lead somewhere, nothing names a machine."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import turnout
from turnout import availability
from turnout.workbench.experiment import registry

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "turnout"
FOLDERS = ("src", "tests", "docs", "examples", "experiments", "benchmarks", ".ci", ".github")
TEXT = {".md", ".py", ".toml", ".txt", ".cff", ".yml", ".yaml", ".csv", ".json", ".html", ".ini", ".cfg", ""}

# Written in pieces, so that this file does not match itself.
MACHINE = re.compile("|".join(("/" + "tmp/", "/" + r"root/", "/" + r"home/\w", "/" + r"Users/\w", "index" + "-url")))
LONGEST_FILE, LONGEST_FUNCTION, REASON = 300, 40, "# Long: "
PAGE_PARTS = ("Idea", "Update", "Assumes", "Consistent when", "Cost", "Deviations", "Reference")


def text_files() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return sorted(path for path in [*ROOT.iterdir(), *inside] if path.is_file() and path.suffix in TEXT)


def strategies() -> list[str]:
    """Modules that define a strategy of their name: `ca_fed.py` a class CAFed."""
    found = []
    for path in sorted((SOURCE / "strategies").glob("*.py")):
        classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        own = [node for node in classes if node.name.lower() == path.stem.replace("_", "")]
        if any(ast.unparse(base).split("[")[0] == "Strategy" for node in own for base in node.bases):
            found.append(path.stem)
    return found


def processes() -> list[str]:
    """Modules that define a process of their name: `markov.py` a function markov."""
    paths = sorted((SOURCE / "availability").glob("*.py"))
    trees = {path.stem: ast.parse(path.read_text()).body for path in paths}
    return [
        stem for stem, tree in trees.items() if any(isinstance(n, ast.FunctionDef) and n.name == stem for n in tree)
    ]


STRATEGIES = strategies()
PROCESSES = processes()
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_strategies_and_processes_were_found():
    assert {"fedavg", "more_available"} <= set(STRATEGIES)
    assert {"bernoulli", "minimum_separation"} <= set(PROCESSES)


def test_every_strategy_module_is_named_after_its_class():
    shared = {"__init__", "base"}
    for path in (SOURCE / "strategies").glob("*.py"):
        bases = [
            ast.unparse(b) for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef) for b in n.bases
        ]
        if path.stem not in shared and any(base.split("[")[0] == "Strategy" for base in bases):
            assert path.stem in STRATEGIES, f"{path.name} defines a strategy of another name"


@pytest.mark.parametrize("stem", STRATEGIES)
def test_a_strategy_has_its_page_and_its_test(stem):
    page = ROOT / "docs" / "strategies" / f"{stem}.md"
    assert page.is_file()
    headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
    assert headings == list(PAGE_PARTS)
    assert (ROOT / "tests" / "strategies" / f"test_{stem}.py").is_file()


def bibtex(text: str) -> dict[str, str]:
    entries = re.findall(r"^@.*?^\}$", text, re.MULTILINE | re.DOTALL)
    return {re.match(r"@\w+\{([^,]+),", entry).group(1): entry for entry in entries}


@pytest.mark.parametrize("stem", STRATEGIES)
def test_the_page_shows_the_references_of_the_class_as_they_are_cited(stem):
    shown = bibtex((ROOT / "docs" / "strategies" / f"{stem}.md").read_text())
    known = bibtex((SOURCE / "strategies" / "references.bib").read_text())
    traits = registry.entries("strategies")[stem].traits
    assert set(traits["references"]) == set(shown) > set()
    assert {key: known[key] for key in shown} == shown
    assert traits["consistent"]
    assert traits["server_memory"].startswith("O(")


@pytest.mark.parametrize("stem", STRATEGIES)
def test_a_strategy_is_listed(stem):
    assert f"]({stem}.md)" in (ROOT / "docs" / "strategies" / "README.md").read_text()
    assert f"`{stem}`" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_pages_say_how_many_strategies_there_are(page):
    said = re.findall(r"(\d+) strategies", (ROOT / page).read_text())
    assert set(said) == {str(len(STRATEGIES))}


@pytest.mark.parametrize("stem", PROCESSES)
def test_a_process_has_its_page_and_says_what_is_known_of_it(stem):
    assert (ROOT / "docs" / "processes" / f"{stem}.md").is_file()
    table = (ROOT / "docs" / "processes" / "README.md").read_text()
    (known,) = re.findall(rf"^\| \[[^|]+\]\({stem}\.md\) \|[^|]+\| (yes|no) \|$", table, re.MULTILINE)
    classes = [found for found in vars(availability).values() if isinstance(found, type)]
    made = [found for found in classes if found.__name__.lower() == stem.replace("_", "")]
    assert all(issubclass(found, availability.ErgodicProcess) == (known == "yes") for found in made)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    broken = [t for t in targets if "://" not in t and not t.startswith("mailto:") and not (page.parent / t).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= targets


def test_every_marker_of_tests_has_its_target_and_ci_calls_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    for described in options["markers"]:
        marker, target = re.fullmatch(r"(\w+): .*; `make ([a-z-]+)`", described).groups()
        (recipe,) = re.findall(rf"^{target}:.*\n\t(.*)$", makefile, re.MULTILINE)
        assert re.search(rf"-m '?{marker}\b", recipe)
        assert f"not {marker}" in options["addopts"]
        assert f"| `{marker}` | `make {target}` |" in (ROOT / "CONTRIBUTING.md").read_text()
    called = re.findall(r"suite make ([a-z-]+)", (ROOT / ".ci" / "run").read_text())
    assert called == ["test", "test-flower-inprocess", "test-variants", "test-browser"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in called)


def rows_of(part: str) -> list[tuple[str, str]]:
    """What the tables of a part of CONTRIBUTING say of folders and files of the package."""
    (text,) = re.findall(rf"^## {part}\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)


def paths_in(rows: list[tuple[str, str]]) -> list[str]:
    named = [name for _, where in rows for name in re.findall(r"`([^`]+)`", where)]
    return [name for name in named if "/" in name or name.endswith(".py")]


@pytest.mark.parametrize("path", paths_in([*rows_of("Where things are"), *rows_of("Twelve tasks, and two more")]))
def test_contributing_names_files_that_are_there(path):
    assert list(SOURCE.glob(re.sub(r"<\w+>", "*", path).rstrip("/")))


def test_contributing_has_every_room_of_the_package_and_fourteen_tasks():
    named = paths_in(rows_of("Where things are"))
    folders = [path for path in SOURCE.iterdir() if path.is_dir()] + list((SOURCE / "workbench").iterdir())
    rooms = [path.relative_to(SOURCE) for path in folders if (path / "__init__.py").is_file()]
    assert not [room for room in rooms if not any(name.startswith(f"{room}/") for name in named)]
    numbers = [task.split(".")[0] for task, _ in rows_of("Twelve tasks, and two more")]
    assert numbers == ["task", *(str(number) for number in range(1, 15))]


def test_decisions_are_numbered_without_gaps():
    folder = ROOT / "docs" / "decisions"
    names = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text()) == names


def test_no_file_names_a_machine_or_an_index():
    files = text_files()
    assert len(files) > 50
    found = [
        f"{name_of(path)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert not found


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins == sorted(pins, key=lambda pin: pin.split("==")[0])
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins)
    assert not any("://" in line for line in lines)


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[^A-Za-z0-9_-]", name)[0].lower().replace("_", "-") for name in wanted} - {"turnout"}
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names <= pinned


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/turnout/__init__.py"
    holders = [path for path in SOURCE.rglob("*.py") if re.search(r"^__version__ *=", path.read_text(), re.MULTILINE)]
    assert holders == [SOURCE / "__init__.py"]


def test_nothing_is_shown_as_on_a_package_index():
    """There is no release yet: `pip install turnout` would fail, or install something else."""
    shown = re.compile(r"pip install (?:-\S+ )*['\"]?turnout\b")
    files = [path for path in text_files() if path.suffix in (".md", ".py") and path != Path(__file__)]
    assert not [name_of(path) for path in files if shown.search(path.read_text(errors="ignore"))]


def test_the_number_of_strategies_is_the_same_on_every_page():
    count = len(registry.entries("strategies"))
    pages = [ROOT / name for name in ("README.md", "docs/index.md")]
    numbers = {int(found) for page in pages for found in re.findall(r"\b(\d+) strategies\b", page.read_text())}
    assert numbers == {count}


def test_the_number_of_claims_is_the_same_on_every_page():
    counts = {
        name_of(page): set(re.findall(r"Of (\d+) claims", page.read_text()))
        for page in [*PAGES, ROOT / "experiments" / "README.md"]
    }
    assert len({number for numbers in counts.values() for number in numbers}) == 1, counts
    readme = (ROOT / "README.md").read_text()
    not_run = re.search(r"^Of (\d+) claims: .*?(?: Not run: (.*)\.)?$", readme, re.MULTILINE)
    lacking = len(not_run[2].split(",")) if not_run[2] else 0
    assert int(not_run[1]) + lacking == len(registry.entries("claims"))


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.svg")), ids=name_of)
def test_a_picture_is_readable_on_a_dark_page(picture):
    assert re.search(r'<rect width="\d+" height="\d+" fill="white"/>', picture.read_text()[:1000])


def has_reason(lines: list[str], node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function says why it is long, above itself or where it begins."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return any(REASON in lines[number - 1] for number in (max(first - 1, 1), node.lineno))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=name_of)
def test_what_is_long_says_why(path):
    """Files and functions, docstrings included: a longer one has a line `# Long: …` with its reason."""
    lines = path.read_text().splitlines()
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node for node in functions if node.end_lineno - node.lineno >= LONGEST_FUNCTION]
    assert not [node.name for node in long if not has_reason(lines, node)]
    assert len(lines) <= LONGEST_FILE or any(line.startswith(REASON) for line in lines[:5])


def test_the_version_is_a_release_and_what_is_cited_and_changed():
    assert re.fullmatch(r"\d+\.\d+\.\d+", turnout.__version__)
    assert re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [turnout.__version__]
    changes = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[([^]]+)\] - (?:Unreleased|\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    assert versions[0] == turnout.__version__
    assert len(versions) == len(re.findall(r"^## ", changes, re.MULTILINE))
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}  # those of Keep a Changelog
    assert set(re.findall(r"^### (.+)$", changes, re.MULTILINE)) <= kinds


def test_urls_are_addresses_or_lead_into_the_repository():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert set(urls) >= {"Documentation", "Source", "Changelog", "Issues"}
    assert all("://" in url or (ROOT / url.split("#")[0]).exists() for url in urls.values())


def test_no_two_test_files_share_a_name():
    """Pytest imports them by name alone, and would refuse the second one."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
