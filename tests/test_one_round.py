"""The page that follows one round names functions that are really called, in the order of their first call."""

import re
import sys
import threading
import warnings
from pathlib import Path

import jax
import pytest

with warnings.catch_warnings():  # typer may be older than click and read names that click has deprecated since
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.testing import CliRunner

    from turnout.workbench.cli import app

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "one_round.md").read_text()
ROW = re.compile(r"^\| (\d+) \| \[`([\w.]+)`\]\(\.\./([^)]+)\)", re.M)
SECTIONS = [[(name, path) for _, name, path in ROW.findall(part)] for part in PAGE.split("\n## ")]
SECTIONS = [rows for rows in SECTIONS if rows]
# Of a size that no other test has: a program that is compiled already would not be called again.
EXPERIMENT = """
rounds = 3
task = { name = "quadratics", num_clients = 7, dimension = 5 }
availability = { name = "bernoulli", pi = 0.5 }
local = { lasting = true, optimizer = { name = "sgd", momentum = 0.5 } }
uploads = "eight_bit"
facts = "online"
strategies = [{ name = "optimal_sampling", cohort = 2 }]
"""
STOPS = (
    *("run_command", "open_experiment", "Experiment.read", "begin_run", "Unfinished.run", "run_points", "outcomes"),
    *("group_trials", "run_group", "begin", "advance", "play_round", "World.step", "Server.view", "Server.ask"),
    *("Strategy.select", "Server.download", "Client.work", "train_locally", "Server.admit", "Nature.deliver"),
    *("Server.close", "Strategy.aggregate", "Crew.run", "renew", "write_run", "RunReport.write"),
)


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Every call of a function of turnout during a run, in order: its name and its file."""
    folder, made = tmp_path_factory.mktemp("traced"), []
    (folder / "my.toml").write_text(EXPERIMENT)

    def note(frame, event, _):
        _, inside, path = frame.f_code.co_filename.rpartition("src/turnout/")
        if event == "call" and inside:
            made.append((frame.f_code.co_qualname, inside + path))

    before = sys.getprofile()
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            command = ["run", str(folder / "my.toml"), "--out", str(folder / "run"), "--quiet"]
            result = CliRunner().invoke(app, command)
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
    assert result.exit_code == 0, result.output
    return made


def test_each_function_has_one_row():
    rows = [row for section in SECTIONS for row in section]
    assert [int(number) for number, _, _ in ROW.findall(PAGE)] == list(range(1, len(rows) + 1))
    assert len(set(rows)) == len(rows)


def test_the_main_stops_have_a_row():
    names = [name for section in SECTIONS for name, _ in section]
    assert [name for name in names if name in STOPS] == list(STOPS)


def test_functions_are_called_in_the_order_of_the_page(calls):
    """In the order of first calls, those before a section left out: the world is played alone before round 0."""
    last = -1
    for section in SECTIONS:
        assert section[0] in calls, f"{section[0]} is not called"
        start = calls.index(section[0])
        for row in section:
            assert row in calls[start:], f"{row} is not called after {section[0]}"
            place = calls.index(row, start)
            assert place > last, f"{row} is called before the row above it"
            last = place
