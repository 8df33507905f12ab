"""Several processes that compute the cells of one experiment: who does what, and the same numbers at the end."""

import json
import os
import subprocess
import sys

import pytest
from test_unfinished import finish, same_numbers, stopped_at

from turnout.errors import FolderError, UserError
from turnout.workbench import Experiment, load
from turnout.workbench.experiment.cells import Share, compute_share, join_run, num_kept, put_together
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.unfinished import Unfinished, resume_run


@pytest.fixture
def experiment(tiny):
    return Experiment.read(tiny)


@pytest.fixture
def whole(experiment, tmp_path):
    run(experiment, tmp_path / "whole")
    return tmp_path / "whole"


def work(folder, experiment, text, command="run"):
    """Do what one job does; whether it was the last."""
    share = Share.read(text)
    with join_run(Unfinished(folder, command, experiment), share) as unfinished:
        compute_share(unfinished, share)
    with put_together(unfinished) as is_last:
        if is_last:
            unfinished.run()
    return is_last


def test_shares_have_every_cell_once(tiny):
    grid = points(Experiment.read(tiny | {"strategies": [{"name": "fedavg", "cohort": [1, 2, 3, 4, 5]}, "unbiased"]}))
    for jobs in range(1, 7):
        shares = [Share(job, jobs).labels(grid) for job in range(1, jobs + 1)]
        assert [label for share in shares for label in share] == [point.label for point in grid]
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    with pytest.raises(UserError, match="--cells 1/7: there are 6 cells: use at most 6 jobs"):
        Share(1, 7).labels(grid)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/99999999999"])
def test_a_share_is_two_numbers(text):
    with pytest.raises(UserError, match=f"--cells {text}: give the number of the job"):
        Share.read(text)


@pytest.mark.parametrize("order", [("1/3", "2/3", "3/3"), ("2/2", "1/2")])
def test_the_last_of_the_jobs_puts_the_same_numbers_together(experiment, whole, tmp_path, order):
    last = [work(tmp_path / "cells", experiment, text) for text in order]
    assert last == [False] * (len(order) - 1) + [True]
    assert "unfinished" not in os.listdir(tmp_path / "cells")
    same_numbers(tmp_path / "cells", whole)
    with pytest.raises(FolderError, match="exists already"):
        work(tmp_path / "cells", experiment, "1/2")


def test_a_cell_runs_by_the_program_of_its_whole_sweep(tiny, tmp_path):
    wide = {"task": tiny["task"] | {"num_clients": 24}, "strategies": [{"name": "fedavg", "cohort": [2, 20]}]}
    experiment = Experiment.read(tiny | wide)  # alone, a cohort of two would have eight slots
    run(experiment, tmp_path / "whole")
    for text in ("1/2", "2/2"):
        work(tmp_path / "cells", experiment, text)
    same_numbers(tmp_path / "cells", tmp_path / "whole")


def test_a_job_computes_its_own_cells_alone(experiment, tmp_path, monkeypatch):
    labels = stopped_at(9, monkeypatch)
    work(tmp_path / "cells", experiment, "3/3")
    assert labels == ["Unbiased"]


def test_the_rest_can_be_resumed_by_one_process(experiment, whole, tmp_path, monkeypatch):
    work(tmp_path / "cells", experiment, "2/3")
    labels = stopped_at(9, monkeypatch)
    finish(tmp_path / "cells")
    assert labels == ["FedAvg", "Unbiased"]  # of FedAvg one of two cells
    same_numbers(tmp_path / "cells", whole)


def test_a_job_that_was_killed_is_begun_again(experiment, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stopped_at(1, patch)
        with pytest.raises(KeyboardInterrupt) as stop:
            work(tmp_path / "cells", experiment, "1/1")
    assert "go on with the same command, or all the rest with: turnout run --resume" in stop.value.__notes__[0]
    assert work(tmp_path / "cells", experiment, "1/1")
    same_numbers(tmp_path / "cells", whole)


def test_a_job_that_fails_at_once_leaves_nothing_unless_others_are_there(experiment, tmp_path, monkeypatch):
    stopped_at(0, monkeypatch)
    with join_run(Unfinished(tmp_path / "cells", "run", experiment), Share(1, 2)), pytest.raises(KeyboardInterrupt):
        work(tmp_path / "cells", experiment, "2/2")
    assert os.listdir(tmp_path / "cells") == ["unfinished"]
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path / "cells", experiment, "2/2")
    assert os.listdir(tmp_path) == []


def test_processes_are_kept_apart(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr("turnout.workbench.experiment.cells.PATIENCE", 0.1)
    folder = tmp_path / "cells"
    with join_run(Unfinished(folder, "run", experiment), Share(1, 3)):
        with pytest.raises(FolderError, match=rf"\({os.getpid()}\) is writing there, at 'fedavg cohort=2': give every"):
            work(folder, experiment, "1/2")
        with pytest.raises(FolderError, match="another process is running there"):
            run(experiment, folder)
        with pytest.raises(FolderError, match="another process is writing there"):
            finish(folder)
        assert not work(folder, experiment, "3/3")  # another has not finished
    work(folder, experiment, "2/3")
    with pytest.raises(FolderError, match="holds the cells of another experiment or command"):
        work(folder, experiment, "1/3", command="tune")
    (folder / "unfinished" / "start.json").write_text("{}")
    with pytest.raises(FolderError, match=r"start\.json: damaged or edited"):
        work(folder, experiment, "1/3")


def test_a_lone_process_has_the_folder_alone(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr("turnout.workbench.experiment.cells.PATIENCE", 0.1)
    work(tmp_path / "cells", experiment, "1/3")
    with resume_run(tmp_path / "cells", "run"), pytest.raises(FolderError, match="is writing there"):
        work(tmp_path / "cells", experiment, "2/3")


def test_whoever_is_not_the_last_leaves_the_folder_alone(experiment, tmp_path):
    folder = tmp_path / "cells"
    with join_run(Unfinished(folder, "run", experiment), Share(1, 2)) as first:
        compute_share(first, Share(1, 2))
        assert not work(folder, experiment, "2/2")
        assert num_kept(first) == 3
    with put_together(first) as is_last, put_together(first) as another:
        assert (is_last, another) == (True, False)
        first.run()
    assert len(load(folder).points) == 3
    with put_together(first) as too_late:
        assert not too_late


JOB = """
import json, sys
from pathlib import Path
from turnout.workbench import Experiment
from turnout.workbench.experiment.cells import Share, compute_share, join_run, put_together
from turnout.workbench.experiment.unfinished import Unfinished

share = Share.read(sys.argv[2])
with join_run(Unfinished(Path(sys.argv[1]), "run", Experiment.read(json.loads(sys.argv[3]))), share) as unfinished:
    compute_share(unfinished, share)
with put_together(unfinished) as is_last:
    if is_last:
        unfinished.run()
print(is_last)
"""


@pytest.mark.slow
def test_jobs_at_the_same_time(tiny, whole, tmp_path):
    command = [sys.executable, "-c", JOB, str(tmp_path / "cells")]
    jobs = [
        subprocess.Popen([*command, text, json.dumps(tiny)], stdout=subprocess.PIPE, text=True)
        for text in ("1/3", "2/3", "3/3")
    ]
    said = [job.communicate()[0].strip() for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0]
    assert sorted(said) == ["False", "False", "True"]
    same_numbers(tmp_path / "cells", whole)
