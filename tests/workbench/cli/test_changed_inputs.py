"""Runs that were stopped and whose files change meanwhile: two strategies on old data and two on new make no table."""

import gzip
import io
import json
import shutil
import sys

import numpy as np
import polars as pl
import pytest

from turnout.workbench.experiment.store import load
from turnout.workbench.reproduction.stored import read_result

ROWS = "client,label,x,y\n" + "".join(f"c{i % 5},{i % 2},{i % 7}.5,{i * i % 11}\n" for i in range(60))
OTHER_ROWS = ROWS.replace("c0,0,0.5,0\n", "c0,1,0.5,0\n", 1)
SLOTS = "client_id,start_s,end_s,state\n" + "".join(f"{i},0,{40 + 10 * i},1\n" for i in range(5))
OTHER_SLOTS = SLOTS.replace("0,0,40,1", "0,0,20,1")
LETTERS = {f"letters/{name}.txt": f"{name} saw the ship come in at dawn. " * 9 for name in ("ada", "bob", "eve")}
TASK = 'task = { name = "quadratics", num_clients = 5, dimension = 2 }'
WORLD = 'availability = { name = "two_classes" }'
QUADRATICS = """
from turnout.tasks import quadratics

def task(scale=1.0):
    return quadratics(num_clients=5, dimension=2)
"""


def packed(rows):
    return gzip.compress(rows.encode(), mtime=0)


def parquet(rows):
    content = io.BytesIO()
    pl.read_csv(rows.encode()).write_parquet(content)
    return content.getvalue()


def npz(number):
    content = io.BytesIO()
    np.savez(content, numbers=np.full(3, float(number)))
    return content.getvalue()


def reads(line):
    """The source of a task that reads something of its own before it is made."""
    return QUADRATICS.replace("    return", f"    {line}\n    return").replace("\nfrom", "\nimport numpy\nfrom", 1)


# Every kind: the files, the task or the world that reads them, the file that changes, and its other content.
KINDS = {
    "csv": ({"rows.csv": ROWS}, 'task = { name = "csv", path = "rows.csv" }', "rows.csv", OTHER_ROWS),
    "packed csv": (
        {"rows.csv.gz": packed(ROWS)},
        'task = { name = "csv", path = "rows.csv.gz" }',
        "rows.csv.gz",
        packed(OTHER_ROWS),
    ),
    "parquet": (
        {"rows.parquet": parquet(ROWS)},
        'task = { name = "csv", path = "rows.parquet" }',
        "rows.parquet",
        parquet(OTHER_ROWS),
    ),
    "data folder": ({"data/rows.csv": ROWS}, 'task = { name = "csv", path = "rows.csv" }', "data/rows.csv", OTHER_ROWS),
    "trace": (
        {"slots.csv": SLOTS},
        'availability = { name = "trace", path = "slots.csv", slot = 10.0 }',
        "slots.csv",
        OTHER_SLOTS,
    ),
    "trace in parquet": (
        {"slots.parquet": parquet(SLOTS)},
        'availability = { name = "trace", path = "slots.parquet", slot = 10.0 }',
        "slots.parquet",
        parquet(OTHER_SLOTS),
    ),
    "folder of texts": (
        LETTERS,
        'task = { name = "text", path = "letters", context = 4, width = 4 }',
        "letters/bob.txt",
        "bob saw nothing at all, and said so. " * 9,
    ),
    "text that is added": (
        LETTERS,
        'task = { name = "text", path = "letters", context = 4, width = 4 }',
        "letters/cid.txt",
        "cid saw the ship go out at noon. " * 9,
    ),
    "module": ({"mine_one.py": QUADRATICS}, 'task = { name = "mine_one:task" }', "mine_one.py", QUADRATICS + "# x\n"),
    "what a module imports": (
        {"mine_two/__init__.py": "", "mine_two/a.py": f"from .b import K\n{QUADRATICS}", "mine_two/b.py": "K = 1\n"},
        'task = { name = "mine_two.a:task" }',
        "mine_two/b.py",
        "K = 2\n",
    ),
    "what a module will import": (
        {"mine_three.py": reads("from mine_four import K"), "mine_four.py": "K = 1\n"},
        'task = { name = "mine_three:task" }',
        "mine_four.py",
        "K = 2\n",
    ),
    "arrays that a module reads": (
        {"mine_five.py": reads('numpy.load("numbers.npz")["numbers"]'), "numbers.npz": npz(1)},
        'task = { name = "mine_five:task" }',
        "numbers.npz",
        npz(2),
    ),
    "arrays that a module has read": (
        {"mine_six.py": f"import numpy\nK = numpy.load('numbers.npz')['numbers']\n{QUADRATICS}", "numbers.npz": npz(1)},
        'task = { name = "mine_six:task" }',
        "numbers.npz",
        npz(2),
    ),
    "images that a module reads": (
        {
            "mine_seven.py": reads('[file.read_bytes() for file in __import__("pathlib").Path("im").rglob("*.png")]'),
            "im/cat/1.png": b"1",
            "im/dog/2.png": b"2",
        },
        'task = { name = "mine_seven:task" }',
        "im/dog/2.png",
        b"3",
    ),
    "weights by their name": (
        {"mine_eight.py": QUADRATICS.replace("scale=1.0", 'weights="none"'), "base.safetensors": b"1"},
        'task = { name = "mine_eight:task", weights = "base.safetensors" }',
        "base.safetensors",
        b"2",
    ),
    "strategy": (
        {"mine_nine.py": "from turnout.strategies import FedAvg as Mine\n"},
        'strategies = [{ name = "fedavg", cohort = [2, 3] }, { name = "mine_nine:Mine" }]',
        "mine_nine.py",
        "from turnout.strategies import Unbiased as Mine\n",
    ),
}


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def experiment_with(line, rates=""):
    """The tiny experiment with another line in the place of its own."""
    lines = {
        "task": TASK,
        "availability": WORLD,
        "strategies": 'strategies = [{ name = "fedavg", cohort = [2, 3] }, "fedau"]',
    }
    lines[line.partition(" ")[0]] = line
    local = f"local = {{ steps = 2, learning_rate = {rates or 0.1} }}"
    return "\n".join(["rounds = 4", "seeds = 2", local, *lines.values()]) + "\n"


USUAL = list(KINDS)[::4]  # the others are of the same kinds of code


@pytest.fixture(params=[pytest.param(kind, marks=() if kind in USUAL else pytest.mark.variant) for kind in KINDS])
def kind(request, tmp_path, monkeypatch):
    """The files of one kind, an experiment that reads one of them, and this one with its other content."""
    files, line, changed, other = KINDS[request.param]
    write(tmp_path, files)
    (tmp_path / "own.toml").write_text(experiment_with(line))
    if changed.startswith("data/"):
        monkeypatch.setenv("TURNOUT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which a command adds the present folder
    return changed, other


def test_a_run_whose_input_has_changed_is_not_resumed(turnout, stopped, tmp_path, kind):
    changed, other = kind
    result = stopped("run", "own.toml", "--out", "half")
    assert result.exit_code == 130, result.output
    old = (tmp_path / changed).read_bytes() if (tmp_path / changed).exists() else None
    write(tmp_path, {changed: other})
    refused = turnout("run", "--resume", "half")
    name, what = changed.replace("data/", "$TURNOUT_DATA/", 1), "is new" if old is None else "has changed"
    told = f"error: {name} {what} since this was begun in half/unfinished: put the old file back, or begin anew in "
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[0] == f"{told}another folder"
    (tmp_path / changed).unlink()
    if old is not None:
        gone = turnout("run", "--resume", "half")
        assert gone.stderr.startswith(f"error: {name} is gone since this was begun in half")
        (tmp_path / changed).write_bytes(old)
    if not changed.endswith(".txt"):  # whose network takes half a minute to compile
        assert turnout("run", "--resume", "half").exit_code == 0
        assert name in load(tmp_path / "half").about["inputs"]


@pytest.fixture
def csv_run(tmp_path):
    """The old and the new rows of an experiment on a table."""
    write(tmp_path, {"rows.csv": ROWS})
    (tmp_path / "own.toml").write_text(experiment_with('task = { name = "csv", path = "rows.csv" }'))
    return tmp_path / "rows.csv"


def test_relative_paths_begin_where_the_run_was_begun(turnout, stopped, tmp_path, monkeypatch, csv_run):
    stopped("run", "own.toml", "--out", "half")
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, {"rows.csv": OTHER_ROWS})
    monkeypatch.chdir(elsewhere)
    resumed = turnout("run", "--resume", "../half")
    assert resumed.exit_code == 0, resumed.output
    monkeypatch.chdir(tmp_path)
    assert turnout("run", "own.toml", "--out", "whole").exit_code == 0
    for file in ("history.parquet", "clients.parquet"):
        assert pl.read_parquet(tmp_path / "half" / file).equals(pl.read_parquet(tmp_path / "whole" / file))


def test_a_run_goes_on_though_all_of_it_has_moved(turnout, stopped, tmp_path, monkeypatch, csv_run):
    write(tmp_path / "here", {"rows.csv": ROWS, "own.toml": (tmp_path / "own.toml").read_text()})
    monkeypatch.chdir(tmp_path / "here")
    stopped("run", "own.toml", "--out", "half")
    shutil.move(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    assert turnout("run", "--resume", "half").exit_code == 0


def test_modules_are_those_of_the_place_where_the_run_was_begun(turnout, stopped, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    write(tmp_path, {"begun/mine_ten.py": QUADRATICS})
    write(tmp_path, {"begun/own.toml": experiment_with('task = { name = "mine_ten:task" }')})
    write(tmp_path, {"other/mine_ten.py": "raise AssertionError('the module of another folder')"})
    monkeypatch.chdir(tmp_path / "begun")
    stopped("run", "own.toml", "--out", "half")
    sys.modules.pop("mine_ten")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path / "begun")])
    monkeypatch.chdir(tmp_path / "other")
    refused = turnout("run", "--resume", "../begun/half")
    assert "is code that this file would run, and the file is not in your working folder" in refused.stderr
    assert turnout("run", "--resume", "../begun/half", "--trust").exit_code == 0


def test_a_search_whose_input_has_changed_is_not_resumed(turnout, stopped, tmp_path, csv_run):
    write(tmp_path, {"own.toml": experiment_with('task = { name = "csv", path = "rows.csv" }', "[0.05, 0.1]")})
    stopped("tune", "own.toml", "--out", "half", "--seeds", "2")
    csv_run.write_text(OTHER_ROWS)
    assert turnout("tune", "--resume", "half").stderr.startswith("error: rows.csv has changed since this was begun in")


def test_jobs_that_read_other_files_do_not_share_a_folder(turnout, csv_run):
    assert turnout("run", "own.toml", "--out", "cells", "--cells", "1/2").exit_code == 0
    csv_run.write_text(OTHER_ROWS)
    second = turnout("run", "own.toml", "--out", "cells", "--cells", "2/2")
    assert second.stderr.startswith("error: rows.csv has changed since this was begun in cells/unfinished")


def test_nothing_is_bound_before_a_point_is_kept(turnout, stopped, tmp_path, csv_run):
    stopped("run", "own.toml", "--out", "half")
    for file in (tmp_path / "half" / "unfinished").glob("point-*.npz"):
        file.unlink()
    csv_run.write_text(OTHER_ROWS)
    assert turnout("run", "--resume", "half").exit_code == 0
    (tmp_path / "own.toml").write_text(experiment_with('task = { name = "csv", path = "rows.csv" }'))
    turnout("run", "own.toml", "--out", "whole")
    histories = [pl.read_parquet(tmp_path / place / "history.parquet") for place in ("half", "whole")]
    assert histories[0].equals(histories[1])


def test_points_without_a_list_of_their_inputs_run_again(turnout, stopped, tmp_path, csv_run, caplog):
    stopped("run", "own.toml", "--out", "half")
    (tmp_path / "half" / "unfinished" / "inputs.json").unlink()
    for file in (tmp_path / "half" / "unfinished").glob("point-*.npz"):
        shutil.copyfile(file, tmp_path / "kept.npz")
    csv_run.write_text(OTHER_ROWS)
    assert turnout("run", "--resume", "half").exit_code == 0
    assert "has read other files: fedavg cohort=2 is run again" in caplog.text


CLAIM = """
title = "Slower is worse"
claim = "The larger of two learning rates gets nearer in few rounds."
checks = [
    { name = "ahead", label = "fast", smaller_is_better = true, measure = { name = "final", metric = "train_loss" } },
]
figure = { name = "curves", metric = "train_loss" }
panels = { few = { rounds = 4 }, more = { rounds = 8 } }
[experiment]
seeds = 2
task = { name = "csv", path = "rows.csv" }
availability = { name = "two_classes" }
local = { steps = 2, learning_rate = 0.1 }
strategies = [
    { name = "fedavg", cohort = 2, label = "fast" },
    { name = "fedau", label = "slow", local = { learning_rate = 0.001 } },
]
"""


@pytest.mark.parametrize("programs", [1, 2], ids=["within a panel", "after a panel"])
def test_a_claim_whose_input_has_changed_does_not_go_on(turnout, stopped, tmp_path, csv_run, programs):
    (tmp_path / "own.toml").write_text(CLAIM)
    result = stopped("reproduce", "own.toml", "--out", "out", after=programs)
    assert result.exit_code == 130, result.output
    csv_run.write_text(OTHER_ROWS)
    refused = turnout("reproduce", "own.toml", "--out", "out")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: rows.csv has changed since this was ")
    assert refused.stderr.splitlines()[0].endswith(": put the old file back, or run all of it anew (--again)")
    csv_run.write_text(ROWS)
    assert turnout("reproduce", "own.toml", "--out", "out").exit_code == 0


def test_a_claim_is_not_done_with_other_files(turnout, tmp_path, csv_run, caplog):
    (tmp_path / "own.toml").write_text(CLAIM)
    turnout("reproduce", "own.toml", "--out", "out")
    before = read_result(tmp_path / "out" / "quick" / "own")
    csv_run.write_text(OTHER_ROWS)
    result = turnout("reproduce", "own.toml", "--out", "out", "--json")
    assert "rows.csv has changed since out/quick/own was written: its claim is run again" in caplog.text
    assert json.loads(result.stdout)[0]["inputs"] != before["inputs"]
