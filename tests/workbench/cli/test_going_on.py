"""`--resume`, `turnout verify`, and commands that read without importing."""

import json
import shutil
import sys

import pytest
from cli_stage import documented, keys_of

TWO = 'strategies=[{name="fedavg", cohort=[2, 3]}, "unbiased"]'
OPTIONS = ("tiny.toml", "--seeds", "2", "--set", TWO)
TUNED = ("tune", *OPTIONS, "--metric", "train_loss", "--set", "local.learning_rate=[0.0,0.1]")


@pytest.mark.parametrize("command", [("run", *OPTIONS), TUNED], ids=lambda command: command[0])
def test_a_command_that_is_stopped_says_how_to_go_on_and_does(turnout, stopped, tmp_path, command):
    result = stopped(*command, "--out", "half")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == f"stopped: go on with: turnout {command[0]} --resume half\n"
    again = turnout(command[0], "--resume", "half", "--json")
    assert again.exit_code == 0, again.stderr
    whole = turnout(*command, "--out", "whole", "--json")
    timeless = [json.loads(one.stdout) | {"folder": "", "seconds": 0} for one in (again, whole)]
    assert timeless[0] == timeless[1]
    names = [{file.name for file in (tmp_path / place).iterdir()} for place in ("half", "whole")]
    assert names[0] == names[1]
    told = turnout(command[0], "--resume", "half")
    assert told.stderr == "error: half: is finished: there is nothing to resume\n"


@pytest.mark.parametrize("command", [("run", *OPTIONS), TUNED], ids=lambda command: command[0])
def test_jobs_share_a_folder(turnout, tmp_path, command):
    first = turnout(*command, "--out", "cells", "--cells", "1/2")
    total = {"run": 3, "tune": 6}[command[0]]
    assert first.stdout == (f"Cells 1/2 are finished, {total // 2} of {total} in all. The last job writes cells.\n")
    again = turnout(*command, "--out", "cells", "--cells", "1/2", "--json")
    assert json.loads(again.stdout) == {"folder": "cells", "cells": "1/2", "kept": total // 2, "of": total}
    last = turnout(*command, "--out", "cells", "--cells", "2/2", "--json")
    whole = turnout(*command, "--out", "whole", "--json")
    timeless = [json.loads(one.stdout) | {"folder": "", "seconds": 0} for one in (last, whole)]
    assert timeless[0] == timeless[1]
    names = [{file.name for file in (tmp_path / place).iterdir()} for place in ("cells", "whole")]
    assert names[0] == names[1]
    assert turnout(*command, "--cells", "1/2").stderr == (
        "error: --cells 1/2: the jobs write into one folder: name it (--out DIR)\n"
    )


@pytest.mark.parametrize("command", ["run", "tune", "reproduce"])
@pytest.mark.parametrize("on", ["spark", "ray:", "rays"])
def test_a_place_that_there_is_not_is_refused(turnout, command, on):
    refused = turnout(command, "tiny.toml", "--on", on)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: --on {on}: give ray, or ray:ADDRESS of a cluster")


def test_ray_deals_the_cells_by_itself_and_is_an_extra(turnout, monkeypatch):
    both = turnout("run", "tiny.toml", "--on", "ray", "--cells", "1/2", "--out", "cells")
    assert both.stderr == "error: --on ray: deals the cells by itself: leave out --cells\n"
    monkeypatch.setitem(sys.modules, "ray", None)
    missing = turnout("run", "tiny.toml", "--on", "ray")
    assert missing.stderr == "error: --on ray: Ray is not installed: pip install ray\n"


def test_an_error_says_how_to_go_on_too(stopped):
    result = stopped("run", *OPTIONS, "--out", "half", error=OSError(28, "No space left on device", "half/x"))
    assert result.exit_code == 2
    assert result.stderr == "error: half/x: no space left on device\ngo on with: turnout run --resume half\n"


def test_a_drawing_that_fails_costs_no_numbers(turnout, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr("turnout.workbench.report.run.run_page.RunReport.write", lambda *_: 1 / 0)
        result = turnout("run", *OPTIONS, "--out", "run")
    assert result.exit_code == 1
    assert result.stderr.endswith("go on with: turnout run --resume run\n")
    assert turnout("report", "run", "-q").exit_code == 0
    assert turnout("run", "--resume", "run", "-q").stdout == "run\n"
    assert (tmp_path / "run" / "learning.png").is_file()
    assert turnout("verify", "run").stdout == "run: 9 as written\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("run", "demo2.toml"), "experiment"),
        (("run", "--rounds", "3"), "changes"),
        (("run", "--set", "rounds=3"), "changes"),
        (("tune", "--out", "elsewhere"), "out"),
        (("tune", "--keep", "strategy.cohort"), "--keep"),
        (("tune", "--cells", "1/2"), "--cells"),
        (("run", "--cells", "1/2"), "--cells"),
    ],
)
def test_other_options_are_refused_when_going_on(turnout, arguments, named):
    result = turnout(arguments[0], *arguments[1:], "--resume", "half")
    assert result.exit_code == 2
    assert result.stderr == (f"error: --resume half: goes on with what was asked at the start: leave out {named}\n")


def test_default_names_do_not_collide(turnout, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "turnout.workbench.cli.run.new_folder", lambda stem: tmp_path / "runs" / f"{stem}-20260101-000000"
    )
    names = [turnout("run", "tiny.toml", "--seeds", "2", "-q").stdout.strip().rpartition("/")[2] for _ in range(2)]
    assert names == ["tiny-20260101-000000", "tiny-20260101-000000-2"]
    third = turnout("run", str(tmp_path / "runs" / names[1]), "-q").stdout.strip().rpartition("/")[2]
    assert third == "tiny-20260101-000000-3"  # the name of the experiment, not of its second run


@pytest.fixture
def folder(turnout, tmp_path):
    assert turnout("run", *OPTIONS, "-q", "--out", "run").exit_code == 0
    return tmp_path / "run"


def test_verifying_names_what_was_edited(turnout, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "edited")
    shutil.copytree(folder, tmp_path / "older")
    (tmp_path / "older" / "manifest.json").unlink()
    (folder / "notes.txt").write_text("Mine.")
    result = turnout("verify", ".")
    assert result.exit_code == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["edited: 9 as written", "older: no manifest", "run: 9 as written"]
    (tmp_path / "edited" / "run.json").write_text("{}")
    (tmp_path / "edited" / "clients.parquet").unlink()
    result = turnout("verify", "-q", ".")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: edited/clients.parquet: missing, although the manifest lists it; "
        "edited/run.json: edited or damaged since it was written\n"
    )
    tables = json.loads(turnout("verify", "run", "older", "--json").stdout)
    assert documented("verify") - {"ok"} <= keys_of(tables)
    assert tables[0]["files"]["notes.txt"] == "not in the manifest"
    for arguments in (("report", "edited"), ("plot", "edited", "curves")):
        assert "`turnout verify edited` tells of all files" in turnout(*arguments).stderr
    assert turnout("verify", "nowhere").stderr == "error: nowhere: there is no such file or folder\n"
    (tmp_path / "empty").mkdir()
    assert turnout("verify", "empty").stderr == "error: empty: holds no result, and no checkpoint\n"


def test_an_unfinished_run_can_be_verified(turnout, stopped, tmp_path):
    stopped("run", *OPTIONS, "--out", "half")
    assert turnout("verify", "half").stdout.count("1 as written") == 2
    point = next((tmp_path / "half" / "unfinished").glob("point-*.npz"))
    point.write_bytes(point.read_bytes()[:-1])
    assert "ends too early" in turnout("verify", "half").stderr
    assert "its run is not finished" in turnout("report", "half").stderr


def test_reading_puts_nothing_on_the_path(turnout, folder, tmp_path):
    (folder / "json.py").write_text("raise AssertionError('imported')")
    before = list(sys.path)
    assert turnout("report", "run", "-q").exit_code == 0
    assert turnout("plot", "run", "curves", "--format", "svg", "-q").exit_code == 0
    assert sys.path == before


def test_a_file_from_elsewhere_runs_code_only_with_trust(turnout, tmp_path, monkeypatch):
    (tmp_path / "away").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "away" / "homemade_elsewhere.py").write_text("from turnout.strategies import FedAvg as Mine\n")
    text = (tmp_path / "tiny.toml").read_text().replace('"fedavg"', '"homemade_elsewhere:Mine"')
    (tmp_path / "away" / "own.toml").write_text(text)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", list(sys.path))
    asked = ("../away/own.toml", "--seeds", "2", "-q", "--out", "here")
    for command in ("run", "audit"):
        refused = turnout(command, "../away/own.toml", "--out", "none")
        assert refused.exit_code == 2
        assert "'homemade_elsewhere:Mine' is code that this file would run" in refused.stderr
    assert not list((tmp_path / "work").iterdir())
    assert turnout("run", *asked, "--trust").stdout == "here\n"
