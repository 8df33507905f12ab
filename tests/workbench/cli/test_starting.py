"""`turnout new` and `turnout choose`: what a study starts with."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_stage import CliRunner, app, documented

from turnout.workbench.experiment.advised import NOTHING_FITS, QUESTIONS, STEPS, choose
from turnout.workbench.experiment.experiment_file import Experiment, read_experiment

ROOT = Path(__file__).parents[3]
FILES = ["README.md", "experiment.toml", "my_process.py", "my_strategy.py", "test_mine.py"]


def test_a_new_folder_holds_an_experiment_with_code_of_its_own(turnout, tmp_path, monkeypatch):
    result = turnout("new", "studies/first")
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "studies" / "first"
    assert sorted(file.name for file in folder.iterdir()) == FILES
    monkeypatch.syspath_prepend(str(folder))
    experiment = read_experiment(folder / "experiment.toml")
    assert [entrant.label for entrant in experiment.strategies] == ["fedavg", "last_word", "patience"]
    assert experiment.availability.name == "my_process:shared_network"


def test_the_page_on_extending_shows_the_strategy_of_a_new_folder(turnout, tmp_path):
    turnout("new", "first")
    _, _, code = (tmp_path / "first" / "my_strategy.py").read_text().split('"""', 2)
    assert f"```python{code.replace(chr(10), '', 1)}```" in (ROOT / "docs" / "extend.md").read_text()


def test_a_folder_that_exists_is_refused_and_kept(turnout, tmp_path):
    (tmp_path / "there").mkdir()
    result = turnout("new", "there")
    assert (result.exit_code, result.stderr) == (2, "error: there: exists already: choose another name\n")
    assert not list((tmp_path / "there").iterdir())


def test_new_for_a_script(turnout):
    document = json.loads(turnout("new", "first", "--json").stdout)
    assert document == {"folder": "first", "files": FILES}
    assert documented("new") == set(document)
    assert turnout("new", "second", "-q").stdout == "second\n"


@pytest.mark.slow
def test_the_test_of_a_new_folder_passes_and_its_experiment_runs(turnout, tmp_path):
    turnout("new", "first")
    folder = tmp_path / "first"
    search = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env=search,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in tested.stdout, tested.stdout
    run = [sys.executable, "-m", "turnout", "run", "experiment.toml", "--rounds", "3", "--seeds", "1", "-q"]
    subprocess.run(run, cwd=folder, env=search, check=True)
    assert list(folder.glob("runs/first-*/report.html"))


def answering(**answers):
    return lambda question: answers.get(question.key, False)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.key)
def test_every_way_through_the_questions_ends_at_an_experiment(question):
    step = next(step for step in STEPS if question in (step, step.otherwise))
    choice = choose(answering(**{step.key: True, question.key: True}))
    assert choice.step is step
    assert choice.strategy == question.strategy
    experiment = Experiment.read(choice.document())
    assert experiment.strategies[-1].strategy.name == choice.strategy["name"]


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.key)
def test_every_experiment_of_the_questions_runs(turnout, question):
    step = next(step for step in STEPS if question in (step, step.otherwise))
    given = [f"--answer={key}={'yes' if key in (step.key, question.key) else 'no'}" for key in KEYS]
    assert turnout("choose", *given, "--out", "chosen.toml").exit_code == 0
    result = turnout("run", "chosen.toml", "--rounds", "2", "--seeds", "1", "-q")
    assert result.exit_code == 0, result.stderr


KEYS = [question.key for question in QUESTIONS]


def test_all_noes_end_at_fedavg_alone():
    choice = choose(answering())
    assert choice.step is NOTHING_FITS
    assert [entrant.label for entrant in Experiment.read(choice.document()).strategies] == ["fedavg"]


def test_questions_are_asked_on_the_terminal(turnout, tmp_path):
    result = CliRunner().invoke(app, ["choose"], input="no\nperhaps\nN\ny\nn\n")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("[y/n]") == 5  # one of them twice
    assert result.stdout.startswith("Use c-a-FedAvg. Its cost: the success of the links")
    assert "turnout audit experiment.toml" in result.stdout
    assert [e.label for e in read_experiment(tmp_path / "experiment.toml").strategies] == ["fedavg", "c_a_fedavg"]
    again = turnout("choose")
    assert again.exit_code == 2
    assert again.stderr == "error: experiment.toml: exists already: name another file (--out FILE.toml)\n"


def test_answers_of_a_script(turnout):
    result = turnout("choose", "--answer", "memory=yes", "--answer", "private=yes", "--json")
    document = json.loads(result.stdout)
    assert document["strategy"] == {"name": "last_word", "memory": "clients"}
    assert documented("choose") == set(document)
    missing = turnout("choose", "--answer", "memory=no", "--out", "other.toml")
    assert missing.exit_code == 2
    assert re.search(r"^.*error: no answer to 'Are all .*: give --answer alike=yes or alike=no$", missing.stderr)


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [("memry=yes", "did you mean 'memory'?"), ("memory", "give memory=yes or memory=no"), ("memory=1", "give memory=")],
)
def test_an_answer_that_is_none(turnout, answer, remedy):
    result = turnout("choose", "--answer", answer)
    assert result.exit_code == 2
    assert remedy in result.stderr
