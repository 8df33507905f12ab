"""`turnout` and `turnout run`: options, mistakes, what is printed where."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_stage import documented, keys_of

from turnout.errors import UserError
from turnout.workbench.cli import run


def test_version(turnout):
    from turnout import __version__

    assert turnout("--version").stdout.strip() == f"turnout {__version__}"


def test_help_names_the_commands(turnout):
    text = turnout("--help").stdout
    assert "run" in text
    assert "list" in text


def test_a_run_tells_its_result_and_leaves_a_folder(turnout, tmp_path):
    result = turnout("run", "tiny.toml", "--seeds", "2")
    assert result.exit_code == 0, result.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("tiny-")
    kept = {"experiment.toml", "history.parquet", "attendance.parquet", "report.html", "learning.png", "attention.png"}
    assert kept <= {file.name for file in folder.iterdir()}
    assert f"turnout run runs/{folder.name}/experiment.toml" in (folder / "report.html").read_text()
    for expected in ("FedAvg cohort=2", "±", "Run folder: runs/tiny-", "Next: turnout run"):
        assert expected in result.stdout


def test_a_run_folder_can_be_run_again(turnout, tmp_path):
    assert turnout("run", "tiny.toml", "--seeds", "2", "--quiet", "--out", "first").stdout == "first\n"
    again = turnout("run", "first", "--json", "--out", "second")
    once = turnout("run", "tiny.toml", "--seeds", "2", "--json", "--out", "third")
    assert turnout("cite", "first/experiment.toml").stdout == turnout("cite", "first").stdout
    assert json.loads(again.stdout)["points"] == json.loads(once.stdout)["points"]
    assert documented("run") <= keys_of(json.loads(once.stdout))


@pytest.mark.parametrize(
    ("source", "changes", "command"),
    [
        ("demo", ["task.spread=2"], "turnout audit demo --set task.spread=2   ("),
        ("mine.toml", [], "turnout run 'my runs/x/experiment.toml' --seeds 20   ("),
    ],
)
def test_the_next_command_keeps_what_was_set(source, changes, command):
    assert run._next_command(source, changes, Path("my runs/x")).startswith(command)


def test_options_change_the_experiment(turnout, tmp_path):
    options = ["--rounds", "2", "--seeds", "2", "--set", "strategies.0.cohort=[1, 3]", "--set", "task.spread=2"]
    result = turnout("run", "tiny.toml", "--json", "--out", "here", *options)
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["rounds"], summary["seeds"], summary["folder"]) == (2, [0, 1], "here")
    assert [point["label"] for point in summary["points"]] == ["fedavg cohort=1", "fedavg cohort=3"]
    assert "spread = 2.0" in (tmp_path / "here" / "experiment.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tiny.tml"], "error: there is no experiment 'tiny.tml'"),
        (["absent.toml"], "error: absent.toml: there is no such file"),
        (["tiny.toml", "--rounds", "0"], "error: rounds: given 0"),
        (
            ["tiny.toml", "--set", "task.dimensions=2"],
            "error: task: unknown key 'dimensions': did you mean 'dimension'?",
        ),
        (["tiny.toml", "--set", "strategies.0.cohort=7"], "error: strategies[0]: cohort must be between 1 and the 5"),
        (["tiny.toml", "--out", "."], "error: .: exists already"),
        (["tiny.toml", "--out", "tiny.toml/run"], "error: tiny.toml/run: cannot be written"),
        (["."], "error: .: holds no experiment.toml"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(turnout, tmp_path, arguments, complaint):
    result = turnout("run", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.parametrize("command", [["run", "tiny.toml"], ["list"], ["cite", "fedavg"], ["diagnose", "log.csv"]])
def test_stopping_says_so_without_a_trace(turnout, monkeypatch, tmp_path, command):
    (tmp_path / "log.csv").write_text("round,client\n0,a\n")

    def stop(*_, **__):
        raise KeyboardInterrupt

    for place in (
        "experiment.experiment_file.Experiment.read",
        "experiment.registry.entries",
        "diagnosis.diagnose.diagnose",
    ):
        monkeypatch.setattr(f"turnout.workbench.{place}", stop)
    result = turnout(*command)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "stopped: nothing half-done is left\n")


@pytest.mark.parametrize(
    "command",
    [
        ["run", "tiny.toml"],
        ["tune", "tiny.toml", "--metric", "train_loss"],
        ["audit", "tiny.toml"],
        ["diagnose", "log.csv"],
        ["reproduce", "debiased_fig1"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_compiles_keeps_programs_on_disk_and_few_in_memory(turnout, monkeypatch, tmp_path, command):
    (tmp_path / "log.csv").write_text("round,client\n0,a\n")
    asked = []

    def stop():
        raise UserError("far enough")

    monkeypatch.setattr("turnout.simulator.programs.use_compilation_cache", lambda: asked.append("disk"))
    monkeypatch.setattr("turnout.simulator.programs.keep_few_programs", stop)
    assert turnout(*command).stderr == "error: far enough\n"
    assert asked == ["disk"]


def test_modules_beside_the_experiment_can_be_named(turnout, tmp_path):
    (tmp_path / "homemade_strategy.py").write_text("from turnout.strategies import FedAvg as Mine\n")
    options = ["--seeds", "2", "-q", "--out", "here", "--set", "strategies.0.name=homemade_strategy:Mine"]
    result = turnout("run", "tiny.toml", *options)
    assert result.exit_code == 0, result.stderr


def test_help_waits_for_nothing_heavy():
    program = "import sys; sys.argv = ['turnout', '--help']; from turnout.workbench.cli import main; main()"
    watch = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {program}"
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    assert not {"jax", "numpy", "polars", "altair", "equinox", "scipy"} & set(done.stderr.split())
    assert "reproduce" in done.stdout


def test_the_bar_tells_what_is_done_and_the_loss():
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from turnout.workbench.cli.terminal import Bar

    text = io.StringIO()
    columns = TextColumn("{task.description} {task.percentage:.0f} {task.fields[latest]}")
    with Progress(columns, console=Console(file=text, force_terminal=True, width=80)) as progress:
        bar = Bar(progress, "training")
        bar.watch({"train_loss": 0.512345, "test_accuracy": 0.9})
        bar(0.25)
    assert "training 25 train loss 0.512" in text.getvalue()


def test_nothing_but_json_goes_to_a_pipe(turnout, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    result = turnout("list", "tasks", "--json")
    assert "\x1b" not in result.stdout
    assert json.loads(result.stdout)
    assert "\x1b" not in turnout("list", "tasks").stdout
