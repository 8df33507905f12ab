"""Runs that were stopped and go on: what is left of them, who may write, and the same numbers at the end."""

import json
import os

import polars as pl
import pytest

from turnout.errors import FolderError
from turnout.files.whole import renew_folder
from turnout.workbench import Experiment, ExperimentError, load
from turnout.workbench.experiment import run as running
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.unfinished import Unfinished, begin_run, read_unfinished, resume_run


@pytest.fixture
def experiment(tiny):
    return Experiment.read(tiny)


def stopped_at(number, monkeypatch, error=KeyboardInterrupt):
    """Make the program of this number, counted from 0, fail; the labels of those begun are collected."""
    simulate, labels = running.run_group, []

    def run_group(tasks, group, *rest):
        labels.append(type(group.all_trials[0].strategy).__name__)
        if len(labels) > number:
            raise error
        return simulate(tasks, group, *rest)

    monkeypatch.setattr(running, "run_group", run_group)
    return labels


@pytest.fixture
def half(experiment, tmp_path, monkeypatch):
    """A run that was stopped after the first of its two programs."""
    with monkeypatch.context() as patch:
        stopped_at(1, patch)
        with pytest.raises(KeyboardInterrupt) as stop:
            run(experiment, tmp_path / "half")
    assert stop.value.__notes__ == [f"go on with: turnout run --resume {tmp_path / 'half'}"]
    return tmp_path / "half"


def finish(folder):
    with resume_run(folder, "run") as unfinished:
        return unfinished.run()


def same_numbers(one, other):
    for name in ("history", "clients", "attendance"):
        assert pl.read_parquet(one / f"{name}.parquet").equals(pl.read_parquet(other / f"{name}.parquet"))
    for name in ("models.npz", "experiment.toml"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_a_run_goes_on_after_its_finished_programs(experiment, half, tmp_path, monkeypatch):
    with pytest.raises(ExperimentError, match=rf"not finished; `turnout run --resume {half}` goes on"):
        load(half)
    labels = stopped_at(9, monkeypatch)
    finish(half)
    assert labels == ["Unbiased"]
    assert "unfinished" not in os.listdir(half)
    run(experiment, tmp_path / "whole")
    same_numbers(half, tmp_path / "whole")
    about, whole = (json.loads((folder / "run.json").read_text()) for folder in (half, tmp_path / "whole"))
    assert about.keys() == whole.keys()
    assert about["seconds"] > 0
    with pytest.raises(FolderError, match="is finished: there is nothing to resume"):
        finish(half)


def test_a_point_that_is_damaged_is_run_again(experiment, half, tmp_path, monkeypatch, caplog):
    for file in (half / "unfinished").glob("point-*.npz"):
        content = bytearray(file.read_bytes())
        content[100] ^= 4
        file.write_bytes(content)
    labels = stopped_at(9, monkeypatch)
    finish(half)
    assert labels == ["FedAvg", "Unbiased"]
    assert "edited or damaged since it was written: fedavg cohort=2 is run again" in caplog.text
    run(experiment, tmp_path / "whole")
    same_numbers(half, tmp_path / "whole")


def test_points_of_an_edited_experiment_are_not_mixed_in(half, monkeypatch, caplog):
    start = half / "unfinished" / "start.json"
    document = json.loads(start.read_text())
    document["experiment"]["local"]["learning_rate"] = 0.2
    start.write_text(json.dumps(document))
    labels = stopped_at(9, monkeypatch)
    finish(half)
    assert labels == ["FedAvg", "Unbiased"]
    assert "belongs to another experiment" in caplog.text


def test_a_run_that_fails_before_anything_is_kept_leaves_nothing(experiment, tmp_path, monkeypatch):
    stopped_at(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as stop:
        run(experiment, tmp_path / "runs" / "new")
    assert not hasattr(stop.value, "__notes__")
    assert os.listdir(tmp_path) == []


def test_numbers_are_whole_though_drawing_fails(experiment, tmp_path):
    def fail():
        with begin_run(Unfinished(tmp_path / "run", "run", experiment)) as unfinished:
            unfinished.run()
            with renew_folder(unfinished.folder):
                1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError) as error:
        fail()
    assert error.value.__notes__ == [f"go on with: turnout run --resume {tmp_path / 'run'}"]
    assert len(load(tmp_path / "run").points) == 3
    with resume_run(tmp_path / "run", "run") as unfinished:
        unfinished.run()
        with renew_folder(unfinished.folder) as work:
            (work / "page.html").write_text("page")
    assert "unfinished" not in os.listdir(tmp_path / "run")
    assert len(load(tmp_path / "run").points) == 3


def test_a_folder_belongs_to_one_process(experiment, half, tmp_path):
    with pytest.raises(FolderError, match=rf"holds an unfinished run: go on \(--resume {half}\)"):
        run(experiment, half)
    with resume_run(half, "run"):
        with pytest.raises(FolderError, match="another process is running there"):
            run(experiment, half)
        with pytest.raises(FolderError, match=rf"another process \({os.getpid()}\) is writing there"):
            finish(half)


def test_default_names_do_not_collide(experiment, tmp_path):
    out = tmp_path / "runs" / "tiny-20260101-000000"
    with (
        begin_run(Unfinished(out, "run", experiment), numbered=True) as first,
        begin_run(Unfinished(out, "run", experiment), numbered=True) as second,
        begin_run(Unfinished(out, "run", experiment), numbered=True) as third,
    ):
        folders = [one.folder for one in (first, second, third)]
    assert folders == [out, out.with_name(f"{out.name}-2"), out.with_name(f"{out.name}-3")]


def test_a_folder_whose_process_died_at_once_is_free(experiment, tmp_path):
    (tmp_path / "new" / "unfinished").mkdir(parents=True)
    (tmp_path / "new" / "unfinished" / "lock").write_text("99999\n")
    run(experiment, tmp_path / "new")
    assert len(load(tmp_path / "new").points) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"experiment": 3}', "[" * 100_000])
def test_a_damaged_start_is_named(half, text):
    (half / "unfinished" / "start.json").write_text(text)
    with pytest.raises(FolderError, match=r"start\.json: damaged or edited"):
        read_unfinished(half)


def test_another_command_is_told(half):
    with (
        pytest.raises(FolderError, match=f"was begun by another command: turnout run --resume {half}"),
        resume_run(half, "tune"),
    ):
        pass
    with pytest.raises(FolderError, match="holds no unfinished run"):
        read_unfinished(half.parent)


def test_code_in_a_folder_from_elsewhere_needs_trust(half, tmp_path, monkeypatch):
    start = half / "unfinished" / "start.json"
    document = json.loads(start.read_text())
    document["experiment"]["task"] = {"name": "subprocess:getoutput", "cmd": f"touch {tmp_path / 'mark'}"}
    start.write_text(json.dumps(document))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with pytest.raises(ExperimentError, match=r"start\.json: task: .*--trust"):
        read_unfinished(half)
    assert read_unfinished(half, trust=True).how_to_go_on == f"turnout run --resume {half} --trust"
    assert not (tmp_path / "mark").exists()
