import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():  # typer may be older than click and read names that click has deprecated since
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.testing import CliRunner

    from turnout.cli import app

TINY = """
title = "Tiny"
rounds = 4
seeds = 9
task = { name = "quadratics", num_clients = 5, dimension = 2 }
availability = { name = "two_classes" }
local = { steps = 2, learning_rate = 0.1 }
strategies = [{ name = "fedavg", cohort = [2, 3] }]
"""
ROUNDS_BETWEEN = (("a", 1), ("b", 1), ("c", 2), ("d", 5), ("e", 10))


@pytest.fixture
def turnout(tmp_path, monkeypatch):
    """Run the command in an empty folder that holds one tiny experiment.

    All runs have the shapes of those in tests/experiment/test_run.py, so that one compiled program serves them all.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "tiny.toml").write_text(TINY)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


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
    assert f"turnout run {folder.name}/experiment.toml" in (folder / "report.html").read_text()
    for expected in ("fedavg cohort=2", "±", "Run folder: runs/tiny-", "Next: turnout run"):
        assert expected in result.stdout


def documented(command):
    """The keys that the docs promise of a command's JSON."""
    page = (Path(__file__).parent.parent / "docs" / "cli.md").read_text()
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", page, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row)) - {"null", "json"}


def keys_of(document):
    """All keys of a document, however deep."""
    inside = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return set(document if isinstance(document, dict) else ()).union(*map(keys_of, inside))


def test_a_run_folder_can_be_run_again(turnout, tmp_path):
    assert turnout("run", "tiny.toml", "--seeds", "2", "--quiet", "--out", "first").stdout == "first\n"
    again = turnout("run", "first", "--json", "--out", "second")
    once = turnout("run", "tiny.toml", "--seeds", "2", "--json", "--out", "third")
    assert turnout("cite", "first/experiment.toml").stdout == turnout("cite", "first").stdout
    assert json.loads(again.stdout)["points"] == json.loads(once.stdout)["points"]
    assert documented("run") <= keys_of(json.loads(once.stdout))


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
        (["."], "error: .: there is no such file"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(turnout, tmp_path, arguments, complaint):
    result = turnout("run", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.toml"]


def test_debug_shows_where_an_error_comes_from(turnout):
    assert turnout("run", "absent.toml", "--debug").exception is not None


def test_an_unforeseen_error_is_one_line_too(turnout, monkeypatch):
    from turnout.experiment import store

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(store, "save", fail)
    result = turnout("run", "tiny.toml", "--seeds", "2")
    assert (result.exit_code, result.stderr) == (2, "error: OSError: disk full (--debug shows more)\n")


def test_a_problem_with_a_file_names_it(turnout, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(13, "Permission denied", "tiny.toml")

    monkeypatch.setattr("turnout.experiment.config.read_experiment", fail)
    result = turnout("run", "tiny.toml", "--seeds", "2")
    assert (result.exit_code, result.stderr) == (2, "error: tiny.toml: permission denied\n")


@pytest.mark.parametrize("command", [["run", "tiny.toml"], ["list"], ["cite", "fedavg"], ["diagnose", "tiny.toml"]])
def test_stopping_says_so_without_a_trace(turnout, monkeypatch, command):
    def stop(*_, **__):
        raise KeyboardInterrupt

    for place in ("experiment.config.read_experiment", "experiment.registry.entries", "diagnosis.diagnose.diagnose"):
        monkeypatch.setattr(f"turnout.{place}", stop)
    result = turnout(*command)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "stopped: nothing half-done is left\n")


def test_modules_beside_the_experiment_can_be_named(turnout, tmp_path):
    (tmp_path / "homemade_strategy.py").write_text("from turnout.strategies import FedAvg as Mine\n")
    options = ["--seeds", "2", "-q", "--out", "here", "--set", "strategies.0.name=homemade_strategy:Mine"]
    result = turnout("run", "tiny.toml", *options)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("kind", ["strategies", "availability", "tasks", "links", "compute", "facts", "experiments"])
def test_list_of_one_kind(turnout, kind):
    from turnout.experiment import registry

    result = turnout("list", kind)
    assert result.exit_code == 0
    for name in registry.entries(kind):
        assert name in result.stdout


def test_lists_for_another_program(turnout):
    from turnout.experiment import registry

    found = json.loads(turnout("list", "strategies", "--json").stdout)["strategies"]
    assert [entry["name"] for entry in found] == list(registry.entries("strategies"))
    (fedau,) = (entry for entry in found if entry["name"] == "fedau")
    assert set(fedau) == {"name", "summary", "parameters", "traits"}
    assert fedau["parameters"] == {"cutoff": "50.0", "cohort": "None"}
    assert fedau["traits"]["server_memory"] == "O(N)"
    assert turnout("list", "facts", "-q").stdout == "online\noracle\n"
    assert set(json.loads(turnout("list", "--json").stdout)) == set(registry.KINDS)
    assert documented("list") <= keys_of(found)
    assert documented("cite") == set(json.loads(turnout("cite", "fedavg", "--json").stdout))


def test_list_of_everything(turnout):
    text = turnout("list").stdout
    assert "demo" in text
    assert "cohort = None" in text


def test_list_tells_what_a_strategy_needs_costs_and_is_good_for(turnout):
    text = turnout("list", "strategies").stdout
    assert "needs pi; server memory O(1); consistent if π is right" in text
    assert "needs nothing; server memory O(1)" in text


def test_cite_a_strategy(turnout):
    result = turnout("cite", "unbiased")
    assert result.exit_code == 0
    assert result.stdout.startswith("@inproceedings{rodio2023federated,")
    assert result.stdout.count("@") == 1


def test_cite_an_experiment(turnout, tmp_path):
    inside = '{ name = "separated", separation = 1, strategy = "unbiased" }'
    more = f'strategies = ["fedavg", {inside}, {{ name = "fedavg", label = "again" }}, {{ name = "mine:Own" }}]'
    (tmp_path / "more.toml").write_text(TINY[: TINY.index("strategies")] + more)
    result = turnout("cite", "more.toml")
    assert result.exit_code == 0, result.stderr
    keys = [line for line in result.stdout.splitlines() if line.startswith("@")]
    assert [key.partition("{")[2] for key in keys] == [
        "mcmahan2017communication,",
        "sun2025debiasing,",
        "rodio2023federated,",
    ]
    assert result.stderr == "no reference is known for mine:Own\n"
    assert turnout("cite", "demo").stdout.startswith("@")


def test_citations_for_another_program(turnout, tmp_path):
    (tmp_path / "own.toml").write_text(
        TINY[: TINY.index("strategies")] + 'strategies = ["fedau", { name = "mine:Own" }]'
    )
    result = turnout("cite", "own.toml", "--json")
    found = json.loads(result.stdout)
    assert (len(found["bibtex"]), found["unknown"], result.stderr) == (1, ["mine:Own"], "")
    assert turnout("cite", "own.toml", "-q").stderr == ""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("turnout cite fed", {"fedacs", "fedau", "fedavg", "fedawe", "fedlaavg", "fednova", "fedvarp"}),
        ("turnout run ", {"demo", "tiny.toml"}),
        ("turnout audit ti", {"tiny.toml"}),
        ("turnout list ex", {"experiments"}),
        ("turnout reproduce debiased_t", {"debiased_table1"}),
        ("turnout diagnose l", {"log.csv", "logs/"}),
    ],
)
def test_the_shell_completes_names(turnout, tmp_path, line, offered):
    (tmp_path / "log.csv").touch()
    (tmp_path / "logs").mkdir()
    words = line.split(" ")
    asked = {"_TURNOUT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(app, [], env=asked, prog_name="turnout")
    assert offered <= set(result.stdout.split()) <= offered | {"logs/"}


def test_help_waits_for_nothing_heavy():
    program = "import sys; sys.argv = ['turnout', '--help']; from turnout.cli import main; main()"
    watch = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {program}"
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    assert not {"jax", "numpy", "polars", "altair", "equinox", "scipy"} & set(done.stderr.split())
    assert "reproduce" in done.stdout


def test_cite_what_does_not_exist(turnout):
    result = turnout("cite", "unbiasd")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'unbiased'" in result.stderr


def test_list_of_nothing_known(turnout):
    result = turnout("list", "strategy")
    assert result.exit_code == 2
    assert "did you mean 'strategies'" in result.stderr


LOG = "round,client\n" + "".join(f"{t},{name}\n" for t in range(40) for name, every in ROUNDS_BETWEEN if t % every == 0)


def test_a_diagnosis_tells_what_it_found_and_leaves_a_folder(turnout, tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    result = turnout("diagnose", "log.csv", "--audit", "0")
    assert result.exit_code == 0, result.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("log-diagnosis-")
    assert {file.name for file in folder.iterdir()} == {"diagnosis.html", "diagnosis.json", "world.toml"}
    assert result.stdout.startswith("FedAvg on this fleet trains")
    for expected in ("5 clients over 40 rounds", "Page: runs/log-diagnosis-", "Next: turnout run runs/log-diagnosis-"):
        assert expected in result.stdout


def test_a_diagnosis_for_another_program(turnout, tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "all.csv").write_text("client,size\n" + "".join(f"{name},10\n" for name in "abcdef"))
    result = turnout(
        "diagnose", "log.csv", "--clients", "all.csv", "--rounds", "50", "--audit", "0", "--json", "--out", "found"
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["folder"], found["log"]["clients"], found["log"]["slots"]) == ("found", 6, 50)
    assert turnout("diagnose", "log.csv", "--audit", "0", "--quiet", "--out", "other").stdout == "other\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.csv"], "error: absent.csv: there is no such file; give"),
        (["bad.csv"], "error: bad.csv: line 3 (client b) has round = 'x'; must be a whole number from 0 on"),
        (["bad.csv", "--slot", "0"], "error: slot_seconds = 0.0: must be a positive number"),
        (["bad.csv", "--out", "."], "exists already"),
    ],
)
def test_a_bad_log_is_one_line(turnout, tmp_path, arguments, message):
    (tmp_path / "bad.csv").write_text("round,client\n0,a\nx,b\n")
    result = turnout("diagnose", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_diagnosis_ranks_strategies(turnout, tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    result = turnout("diagnose", "log.csv", "--audit", "500", "--json", "--out", "found")
    assert result.exit_code == 0, result.stderr
    ranks = json.loads(result.stdout)["ranking"]["ranks"]
    assert {rank["strategy"] for rank in ranks} >= {"fedavg", "unbiased", "mifa"}
    assert "off target" in (tmp_path / "found" / "diagnosis.html").read_text()


def test_an_audit_in_the_terminal(turnout, tmp_path):
    asked = ("audit", "demo", "--rounds", "100", "--set", "strategies=[{name='fedavg'}]")
    result = turnout(*asked, "--out", "found")
    assert result.exit_code == 0, result.stderr
    for expected in ("off target", "fedavg puts", "None is consistent here", "Next: turnout run demo"):
        assert expected in result.stdout
    assert turnout(*asked, "--out", "found").exit_code == 2
    found = json.loads(turnout(*asked, "--json").stdout)
    assert found["strategies"][0]["consistent"] is False
    assert documented("audit") <= keys_of(found)
    refused = turnout("audit", "demo", "--rounds", "0", "--out", "none")
    assert refused.stderr == "error: rounds must be 1 or more, not 0\n"


def test_tuning_chooses_and_leaves_an_experiment_to_run(turnout, tmp_path):
    options = ["--metric", "train_loss", "--seeds", "2", "--set", "local.learning_rate=[0.0,0.1]", "--out", "tuned"]
    result = turnout("tune", "tiny.toml", "--keep", "strategy.cohort", *options)
    assert result.exit_code == 0, result.stderr
    for expected in (
        "fedavg cohort=2",
        "local.learning_rate = 0.1",
        "at the edge",
        "Next: turnout run tuned/experiment.toml",
    ):
        assert expected in result.stdout
    assert turnout("run", "tuned/experiment.toml", "--seeds", "2", "-q", "--out", "run").stdout == "run\n"


def test_the_bar_tells_what_is_done_and_the_loss():
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from turnout.cli.terminal import Bar

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


def test_tuning_on_test_data_is_one_line(turnout, tmp_path):
    result = turnout("tune", "tiny.toml", "--metric", "test_accuracy")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: tuning: 'test_accuracy' is taken on test data")
    assert not (tmp_path / "runs").exists()


CLAIM = (
    """
title = "Tiny"
claim = "Two clients a round end nearer than none."
figure = { name = "curves", metric = "train_loss" }
checks = [
    { name = "ahead", label = "A", smaller_is_better = true, measure = { name = "final", metric = "train_loss" } },
]
[experiment]"""
    + TINY.replace('title = "Tiny"', "").replace("seeds = 9", "seeds = 2").partition("strategies")[0]
    + 'strategies = [{ name = "fedavg", cohort = 2, label = "A" },\n'
    '    { name = "fedavg", cohort = 2, label = "B", local = { learning_rate = 0.0 } }]\n'
)


def test_a_claim_is_run_once_and_then_remembered(turnout, tmp_path):
    (tmp_path / "claim.toml").write_text(CLAIM)
    result = turnout("reproduce", "claim.toml")
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "runs" / "reproduced" / "quick" / "claim"
    assert {"claim.toml", "curves.csv.gz", "experiment.toml", "figure.png", "result.json"} == {
        f.name for f in folder.iterdir()
    }
    for expected in (
        "A ahead of B",
        "holds",
        "Holds here (2 runs",
        "Folder: runs/reproduced/quick/claim",
        "Next: turnout reproduce claim.toml --full",
    ):
        assert expected in result.stdout
    before = (folder / "result.json").stat().st_mtime_ns
    told = json.loads(turnout("reproduce", "claim.toml", "--json").stdout)
    assert told[0]["verdict"] == "holds"
    assert documented("reproduce") <= keys_of(told)
    assert (folder / "result.json").stat().st_mtime_ns == before
    assert turnout("reproduce", "claim.toml", "--again", "-q").stdout == "runs/reproduced/quick/claim\n"
    assert (folder / "result.json").stat().st_mtime_ns != before


def test_stored_results_can_be_checked_anew_and_listed(turnout, tmp_path):
    (tmp_path / "claim.toml").write_text(CLAIM)
    turnout("reproduce", "claim.toml", "-q")
    stored = tmp_path / "runs" / "reproduced" / "quick" / "claim"
    (stored / "figure.png").unlink()
    result = turnout("reproduce", "--refresh", "runs/reproduced", "--page", "page.md")
    assert result.exit_code == 0, result.stderr
    assert (stored / "figure.png").is_file()
    assert "Two clients a round end nearer than none." in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name claims, or --all"),
        (["debiased_fig1", "--quick", "--full"], "choose one"),
        (["debiased_fg1"], "did you mean 'debiased_fig1'"),
        (["--refresh", "."], "holds no result"),
    ],
)
def test_mistakes_with_claims_are_one_line(turnout, arguments, message):
    result = turnout("reproduce", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
