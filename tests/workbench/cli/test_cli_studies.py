"""`turnout diagnose`, `turnout audit` and `turnout tune`."""

import json
from pathlib import Path

import pytest
from cli_stage import documented, keys_of

ROUNDS_BETWEEN = (("a", 1), ("b", 1), ("c", 2), ("d", 5), ("e", 10))


LOG = "round,client\n" + "".join(f"{t},{name}\n" for t in range(40) for name, every in ROUNDS_BETWEEN if t % every == 0)


def test_a_diagnosis_tells_what_it_found_and_leaves_a_folder(turnout, tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    result = turnout("diagnose", "log.csv", "--audit", "0")
    assert result.exit_code == 0, result.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("log-diagnosis-")
    files = {"diagnosis.html", "diagnosis.json", "world.toml", "manifest.json"}
    assert {file.name for file in folder.iterdir()} == files
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
    for expected in ("Off target", "FedAvg puts", "None is consistent here", "Next: turnout run demo"):
        assert expected in result.stdout
    assert turnout(*asked, "--out", "found").exit_code == 2
    found = json.loads(turnout(*asked, "--json").stdout)
    assert found["strategies"][0]["consistent"] is False
    assert documented("audit") <= keys_of(found)
    refused = turnout("audit", "demo", "--rounds", "0", "--out", "none")
    assert refused.stderr == "error: rounds must be a whole number from 1 to 16,777,216, not 0\n"


def test_tuning_chooses_and_leaves_an_experiment_to_run(turnout, tmp_path):
    options = ["--metric", "train_loss", "--seeds", "2", "--set", "local.learning_rate=[0.0,0.1]", "--out", "tuned"]
    result = turnout("tune", "tiny.toml", "--keep", "strategy.cohort", *options)
    assert result.exit_code == 0, result.stderr
    for expected in (
        "FedAvg cohort=2",
        "local.learning_rate = 0.1",
        "at the edge",
        "Next: turnout run tuned/experiment.toml",
    ):
        assert expected in result.stdout
    assert turnout("run", "tuned/experiment.toml", "--seeds", "2", "-q", "--out", "run").stdout == "run\n"


def test_tuning_on_test_data_is_one_line(turnout, tmp_path):
    result = turnout("tune", "tiny.toml", "--metric", "test_accuracy")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: tuning: 'test_accuracy' is taken on test data")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("tune", "demo", "--seeds", "1000000000000"), "seeds must be a whole number from 1 to 1,000,000, not 10"),
        (("tune", "demo", "--rounds", "2147483648"), "rounds must be a whole number from 1 to 16,777,216, not"),
        (("run", "demo", "--seeds", "1000000000000"), "seeds: given 1000000000000, expected a whole number from 1 to"),
        (("audit", "demo", "--rounds", "1000000000000"), "rounds must be a whole number from 1 to 16,777,216, not"),
        (("diagnose", "log.csv", "--rounds", "1000000000000"), "num_rounds = 1000000000000: must be from 1 to"),
        (("diagnose", "log.csv", "--audit", "1000000000000"), "audit must be a whole number from 0 to 16,777,216"),
        (("diagnose", "log.csv", "--slot", "1e-9"), "take longer slots"),
    ],
)
def test_numbers_beyond_all_measure_are_one_line(turnout, tmp_path, command, message):
    (tmp_path / "log.csv").write_text("client,start,end\na,0,6000\n" if "--slot" in command else "round,client\n0,a\n")
    result = turnout(*command, "--out", "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_a_run_is_told_to_a_tracker_when_it_is_written_and_again_from_its_folder(turnout, monkeypatch):
    logged = []
    monkeypatch.setattr("turnout.workbench.report.tracking.import_tracker", lambda name: logged.append(name))
    monkeypatch.setattr("turnout.workbench.report.tracking.log_to", lambda *given: logged.append(given) or "W&B: there")
    monkeypatch.setattr("turnout.workbench.cli.run._simulate", lambda *_, **__: ("the run", None))
    monkeypatch.setattr("turnout.workbench.report.run.run_page.write_report", lambda *_: None)
    monkeypatch.setattr("turnout.workbench.experiment.store.load", lambda _: "the run again")
    result = turnout("run", "tiny.toml", "--out", "there", "--log-to", "wandb", "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "there\n", "W&B: there\n")
    again = turnout("report", "there", "--log-to", "wandb", "-q")
    assert (again.exit_code, again.stderr) == (0, "W&B: there\n")
    first, second = ("wandb", "the run", Path("there")), ("wandb", "the run again", Path("there"))
    assert logged == ["wandb", first, "wandb", second]
    unknown = turnout("run", "tiny.toml", "--log-to", "wandbb")
    assert (unknown.exit_code, "did you mean 'wandb'?" in unknown.stderr) == (2, True)
