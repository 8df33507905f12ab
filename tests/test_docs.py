"""The code that the README and the docs show runs as it stands: Python, experiments, and the commands of the shell."""

import re
import shlex
import tomllib
import warnings
from pathlib import Path

import jax
import pytest

from turnout.workbench.experiment.experiment_file import Experiment, read_experiment
from turnout.workbench.experiment.registry import KEYS
from turnout.workbench.reproduction.claim import read_claim

with warnings.catch_warnings():  # typer may be older than click and read names that click has deprecated since
    warnings.simplefilter("ignore", DeprecationWarning)
    import typer
    from typer.testing import CliRunner

    from turnout.workbench.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
PAGES += ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES += [f"examples/{name}/README.md" for name in ("flower_apps", "flower_quickstart")]
QUICK = ("README.md", "docs/theory/")  # whose Python runs in the ordinary tests; that of other pages is slow
LANGUAGES = {
    "",
    "bibtex",
    "csv",
    "diff",
    "json",
    "python",
    "sh",
    "toml",
}  # a block without one is output, or a picture of text

REST = {  # of an experiment of which a page shows a part
    "rounds": 2,
    "task": {"name": "quadratics", "num_clients": 4},
    "availability": {"name": "bernoulli", "pi": 0.5},
    "strategies": ["fedavg"],
}
# What commands and programs of the pages find in their folder.
LOG = "round,client\n" + "".join(f"{t},{k}\n" for t in range(40) for k in range(5) if t % (k + 1) == 0)
SESSIONS = "client,start,end\n" + "".join(f"{k},{900 * t},{900 * t + 300 * k}\n" for t in range(40) for k in (1, 2))
EVENTS = "".join(f'{{"round": {t}, "client": {k}, "event": "fit_res"}}\n' for t in range(20) for k in (0, t % 3))
EXPERIMENT = """
rounds = 4
task = { name = "synthetic_leaf", num_clients = 6, samples_per_client = 20 }
availability = { name = "two_classes" }
local = { steps = 2, batch_size = 4, learning_rate = 0.1 }
strategies = ["fedavg", "unbiased"]
"""
STRATEGY = "from turnout.strategies import Unbiased\n\nclass Patient(Unbiased):\n    patience: float = 2.0\n"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def holding(language: str) -> list[str]:
    """Pages with such a block; those on Flower have tests of their own, in tests/flower."""
    return [page for page in PAGES if blocks(page, language) and "flower" not in page]


def python_pages(quick: bool) -> list[str]:
    return [page for page in holding("python") if page.startswith(QUICK) == quick]


def commands() -> list[tuple[str, str]]:
    """Every line of a shell block that calls `turnout`, with its page."""
    lines = [(page, line) for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return [(page, shlex.join(shlex.split(line, comments=True))) for page, line in lines if line.startswith("turnout ")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what the pages speak of; and users do not run with the strictness of these tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {"log.csv": LOG, "sessions.csv": SESSIONS, "events.jsonl": EVENTS, "my_strategies.py": STRATEGY}
    files |= {"experiment.toml": EXPERIMENT, "my.toml": EXPERIMENT, "clients.csv": "client,size\n0,10\n1,20\n2,30\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield tmp_path


def execute(page: str) -> None:
    exec(compile("\n".join(blocks(page, "python")), page, "exec"), {"__name__": "docs"})


def test_every_block_says_what_it_is():
    for page in PAGES:
        opened = re.findall(r"^```(\w*)$", (ROOT / page).read_text(), re.MULTILINE)[::2]
        assert set(opened) <= LANGUAGES, page


@pytest.mark.parametrize("page", python_pages(quick=True))
def test_python_that_is_quick(page, folder):
    execute(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", python_pages(quick=False))
def test_python(page, folder):
    execute(page)


def experiments(block: str) -> list[dict]:
    """What a block shows: one table of keys, or a key a line where lines are alternatives to each other."""
    try:
        return [tomllib.loads(block)]
    except tomllib.TOMLDecodeError:
        return [tomllib.loads(line) for line in block.splitlines()]


@pytest.mark.parametrize("page", holding("toml"))
def test_experiments_and_parts_of_them(page, folder):
    for block in blocks(page, "toml"):
        for shown in experiments(block):
            if "checks" in shown:
                continue  # a claim: below
            assert set(shown) <= set(KEYS)
            Experiment.read(REST | shown)


def test_the_claim_of_the_docs_is_one(tmp_path):
    (example,) = blocks("docs/reproduce.md", "toml")
    path = tmp_path / "my_claim.toml"
    path.write_text(example)
    assert len(read_claim(path, "quick").panels["mild"].seeds) == 3
    assert len(read_claim(path, "full").panels["strong"].seeds) == 10


def parsed(command: str) -> tuple[str, dict]:
    """Name and options of a command, as the program itself would read them; nothing is run."""
    _, name, *arguments = shlex.split(command)
    if name.startswith("-"):
        return name, {}
    known = typer.main.get_command(app).commands
    with known[name].make_context(name, arguments) as context:
        return name, dict(context.params)


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda text: text)
def test_commands_are_understood(page, command, folder):
    name, options = parsed(command)
    if name in ("run", "audit", "tune"):
        read_experiment(options["experiment"], tuple(options["settings"] or ()))
    if name == "reproduce":
        for claim in options["names"] or ():
            read_claim(claim, "full" if options["full"] else "quick")


OF_REAL_NODES = {command for page, command in commands() if "flower" in str(page)}  # tests/flower has such folders
SMALL = {
    "run": ["--rounds", "2", "--seeds", "1", "--set", "task.num_clients=50", "--set", "task.samples_per_client=20"],
    "tune": ["--rounds", "2", "--metric", "train_loss", "--set", "local.learning_rate=[0.01,0.1]"],
    "audit": ["--rounds", "40", "--set", "task.num_clients=50"],
    "diagnose": ["--audit", "0"],
}
OF_RUNS = {"report": "runs", "plot": "runs"}  # and which argument names them
RUN = (*SMALL, *OF_RUNS, "list", "cite")
ENDLESS = {command for _, command in commands() if "--watch" in command}  # tests/workbench/cli/test_live.py has it


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted({c for _, c in commands() if c.split()[1] in RUN} - OF_REAL_NODES - ENDLESS))
def test_commands_run_in_a_small_size(command, folder):
    _, name, *arguments = shlex.split(command.replace("sessions.csv.gz", "sessions.csv"))
    named = parsed(command)[1].get(OF_RUNS.get(name, ""), ())
    for run in named if isinstance(named, list | tuple) else [named]:
        CliRunner().invoke(app, ["run", "experiment.toml", "--rounds", "2", "--seeds", "1", "-q", "--out", str(run)])
    result = CliRunner().invoke(app, [name, *arguments, *SMALL.get(name, [])])
    assert result.exit_code == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize("page", holding(""), ids=str)
def test_make_targets_that_are_shown_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = [line for block in blocks(page, "(?:sh)?") for line in block.splitlines()]
    assert {line.split()[1] for line in shown if re.match(r"make [a-z]", line)} <= targets
