"""Exit code 2 is a mistake that the user can mend, in one line; 1 is a crash, which says where it happened."""

import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from turnout.declarations.arrays import at_least
from turnout.errors import FolderError, UserError
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.experiment.errors import ExperimentError


@pytest.fixture
def run_with(turnout, monkeypatch):
    """`turnout run`, in which reading the experiment does something else."""

    def run(instead, *options):
        monkeypatch.setattr("turnout.workbench.experiment.experiment_file.Experiment.read", lambda *_: instead())
        return turnout("run", "tiny.toml", *options)

    return run


def raising(error):
    def instead():
        raise error

    return instead


def refuse():
    return at_least("rounds", 0, 1)


def open_absent_file():
    return open("no/file.csv")


MISTAKES = {
    "user": (raising(UserError("mend this")), "mend this"),
    "experiment": (raising(ExperimentError("strategies[0]: mend\n  this")), "strategies[0]: mend this"),
    "log": (raising(LogError("line 3")), "line 3"),
    "folder": (raising(FolderError("exists already")), "exists already"),
    "file": (open_absent_file, "no/file.csv: no such file or directory"),
    "permission": (raising(PermissionError(13, "Permission denied", "a.toml")), "a.toml: permission denied"),
    "refusal of turnout": (refuse, "rounds must be a whole number of 1 or more, not 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_user_is_one_line_and_exit_code_2(run_with, name):
    instead, message = MISTAKES[name]
    result = run_with(instead)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1


def within_turnout(expression):
    """Evaluate an expression as if a module of turnout held it."""
    module = {"__name__": "turnout.made_up", "np": np, "jnp": jnp, "pl": pl}
    return lambda: eval(compile(expression, "made_up.py", "eval"), module)


CRASHES = {  # what happens, what is said of it, and whether the library has lines of its own in the traceback
    "np.zeros(2) + np.zeros(3)": ("ValueError: operands could not be broadcast", False),
    "np.stack([])": ("ValueError: need at least one array", True),
    "jnp.stack([])": ("ValueError: Need at least one array", True),
    "pl.DataFrame({'a': [1]})['b']": ("ColumnNotFoundError: ", True),
    "int('x')": ("ValueError: invalid literal", False),
    "{}['rounds']": ("KeyError: 'rounds'", False),
    "1 / 0": ("ZeroDivisionError: division by zero", False),
}


@pytest.mark.parametrize("expression", CRASHES)
def test_a_crash_says_where_and_has_exit_code_1(run_with, expression):
    message, in_library = CRASHES[expression]
    result = run_with(within_turnout(expression))
    assert (result.exit_code, result.stdout) == (1, "")
    what, where, *rest = result.stderr.splitlines()
    assert not rest
    assert what.startswith(f"error: {message}")
    library = r"\S+:\d+, called at " if in_library else ""
    assert re.fullmatch(rf"  at {library}made_up\.py:1 \(--debug shows the whole traceback\)", where)


def test_a_system_error_without_a_file_is_no_mistake(run_with):
    result = run_with(raising(OSError("disk full")))
    assert result.exit_code == 1
    assert re.search(r"^  at \S+:\d+, called at turnout/workbench/cli/folders\.py:\d+ ", result.stderr, re.MULTILINE)


def test_a_crash_within_turnout_names_its_own_line(turnout, monkeypatch):
    monkeypatch.setattr("turnout.workbench.experiment.registry.LISTED_KINDS", None)
    result = turnout("list")
    assert result.exit_code == 1
    assert re.search(r"^  at turnout/workbench/cli/listing\.py:\d+ \(--debug", result.stderr, re.MULTILINE)


@pytest.mark.parametrize(("instead", "code"), [(raising(UserError("mend this")), 2), (lambda: 1 / 0, 1)])
def test_debug_shows_the_whole_traceback_with_the_same_exit_code(run_with, monkeypatch, instead, code):
    by_option = run_with(instead, "--debug")
    monkeypatch.setenv("TURNOUT_DEBUG", "1")
    for result in (by_option, run_with(instead)):
        assert result.exit_code == code
        assert result.stderr.startswith("Traceback (most recent call last):")
        assert "cli/run.py" in result.stderr


EXPERIMENT_STEPS = {  # parts of a run that turn refusals into mistakes of the experiment
    "run": ("turnout.workbench.experiment.run.run_group", ["run"]),
    "tune": ("turnout.workbench.experiment.run.run_group", ["tune", "--metric", "train_loss"]),
    "audit": ("turnout.workbench.experiment.build.audit_trials", ["audit"]),
    "check": ("turnout.workbench.experiment.build.check_trial", ["run"]),
    "calibrate": ("turnout.auditor.calibrate.mean_moves", ["run", "--set", "calibrate=fedavg"]),
}


@pytest.mark.parametrize("step", EXPERIMENT_STEPS)
def test_a_crash_while_an_experiment_runs_is_no_mistake_in_it(turnout, monkeypatch, step):
    place, (command, *options) = EXPERIMENT_STEPS[step]
    for instead, code in ((lambda *_, **__: np.zeros(2) + np.zeros(3), 1), (lambda *_, **__: refuse(), 2)):
        monkeypatch.setattr(place, instead)
        result = turnout(command, "tiny.toml", *options)
        assert result.exit_code == code, result.stderr


OWN_STRATEGY = """
import numpy as np
from turnout.strategies import Strategy

class Mine(Strategy[None]):
    limit: float = 1.0

    def __check_init__(self):
        if self.limit < 0:
            raise ValueError("limit must be positive")
        if self.limit == 0:
            np.zeros(2) + np.zeros(3)
"""


@pytest.mark.parametrize(
    ("limit", "code", "message"),
    [
        (-1.0, 2, "error: strategies[0]: limit must be positive"),
        (0.0, 1, "error: ValueError: operands could not be broadcast"),
    ],
)
def test_a_strategy_of_the_user_may_refuse_and_may_crash(turnout, tmp_path, limit, code, message):
    (tmp_path / "refusing_strategy.py").write_text(OWN_STRATEGY)
    own = f"strategies=[{{name='refusing_strategy:Mine', limit={limit}}}]"
    result = turnout("run", "tiny.toml", "--set", own)
    assert result.exit_code == code
    assert result.stderr.startswith(message)
    assert ("refusing_strategy.py:12" in result.stderr) == (code == 1)


def test_figures_are_left_out_for_a_missing_library_only(monkeypatch, capsys):
    from turnout.workbench.cli.reproduce import _drawing

    figures = "turnout.workbench.report.claims.claim_figure"
    for name in (figures, "turnout.workbench.report.page.on_paper"):  # the modules that import altair
        monkeypatch.delitem(sys.modules, name, raising=False)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "altair", None)
        assert _drawing() is None
        assert "no figures" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, figures, None)
    with pytest.raises(ImportError, match=figures):
        _drawing()


def test_the_program_itself_ends_with_the_code(tmp_path):
    command = [sys.executable, "-m", "turnout", "cite", "absent.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")


STOPPED = """
import gc, os, signal, sys, threading
import typer
from turnout.workbench.cli.stopping import end_when_asked
from turnout.workbench.cli.terminal import one_line_errors

def collected(phase, info):
    gc.callbacks.clear()
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000):
        pass  # the signal arrives here, where nothing can be raised

try:
    with one_line_errors(False):
        end_when_asked()
        gc.callbacks.append(collected)
        gc.collect()
        threading.Event().wait()
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_comes_at_a_bad_moment_is_not_lost(name, code):
    done = subprocess.run(
        [sys.executable, "-c", STOPPED.format(name=name)], capture_output=True, text=True, check=False, timeout=3600
    )
    assert (done.returncode, done.stderr) == (code, "stopped: nothing half-done is left\n")
