"""From `turnout run` to report.html everything is computed once, and nothing that was written is read back."""

import functools
import importlib
from collections import Counter
from pathlib import Path

import pytest

from turnout.simulator import trial
from turnout.workbench.experiment import build, run, sweep
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.parts import Part
from turnout.world import World

TWO_PROGRAMS = 'strategies=[{name="fedavg", cohort=[2, 3]}, "unbiased"]'  # three points in one world
FILES = ("attendance.parquet", "clients.parquet", "experiment.toml", "history.parquet", "models.npz", "run.json")


@pytest.fixture
def calls(monkeypatch):
    """How often each thing was computed, and each file of a run folder was read."""
    counts = Counter()

    def count(owner, name, what=None):
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def counted(*arguments, **options):
            counts[what(*arguments) if what else name] += 1
            return plain(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    count(sweep, "_points_of", lambda experiment, entrant: "points of a strategy")
    count(Part, "build", lambda part, **_: part.kind)
    count(World, "law")
    count(trial, "check_memory", lambda *_: "check_trial")
    simulating = importlib.import_module("turnout.simulator.simulate")
    for module in (run, simulating):
        count(module, "group_trials")
    for module in (build, simulating):
        count(module, "check_metrics")
    count(Experiment, "to_toml")
    for name in ("read_text", "read_bytes"):
        count(Path, name, lambda path, *_: path.name if path.exists() else "absent")
    return counts


def test_a_run_computes_everything_once(turnout, calls):
    done = turnout("run", "tiny.toml", "--set", TWO_PROGRAMS, "--seeds", "2", "--out", "here", "--json")
    assert done.exit_code == 0, done.stderr
    assert (calls["points of a strategy"], calls["check_trial"]) == (2, 3)
    assert (calls["tasks"], calls["availability"], calls["law"]) == (1, 1, 1)
    assert (calls["group_trials"], calls["check_metrics"], calls["to_toml"]) == (1, 1, 1)
    assert not [name for name in FILES if calls[name]], "what was written is read back"
    assert "Optimisation or bias" in Path("here/report.html").read_text()


def test_a_report_reads_every_file_once(turnout, calls):
    assert turnout("run", "tiny.toml", "--seeds", "2", "--out", "here", "--quiet").exit_code == 0
    calls.clear()
    assert turnout("report", "here").exit_code == 0
    assert [calls[name] for name in FILES] == [1] * len(FILES)
    assert (calls["points of a strategy"], calls["tasks"]) == (1, 1)
