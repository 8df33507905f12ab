"""Cells as tasks of Ray: the same numbers, a worker that dies, a driver that dies."""

import json
import os
import subprocess
import sys
import time

import pytest
from test_unfinished import same_numbers

from turnout.errors import UserError
from turnout.workbench import Experiment
from turnout.workbench.experiment import on_ray
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.unfinished import Unfinished, begin_run

DEADLY = """
import __main__, os, pathlib, signal
from turnout.strategies import Unbiased

class Deadly(Unbiased):
    def select(self, *rest):
        if "default_worker" in getattr(__main__, "__file__", ""):
            mark = pathlib.Path(__file__).with_name("killed")
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().select(*rest)
"""
CLAIM = """
title = "Tiny"
claim = "The larger of two learning rates gets nearer in few rounds."
checks = [
    { name = "ahead", label = "fast", smaller_is_better = true, measure = { name = "final", metric = "train_loss" } },
]
figure = { name = "curves", metric = "train_loss" }
panels = { few = { rounds = 4 }, more = { rounds = 8 } }
[experiment]
seeds = 2
task = { name = "quadratics", num_clients = 5, dimension = 2 }
availability = { name = "two_classes" }
local = { steps = 2, learning_rate = 0.1 }
strategies = [
    { name = "deadly:Deadly", label = "fast" },
    { name = "fedavg", cohort = 2, label = "slow", local = { learning_rate = 0.001 } },
]
"""
EXPERIMENT = """
rounds = 4
seeds = 2
task = { name = "quadratics", num_clients = 5, dimension = 2 }
availability = { name = "two_classes" }
local = { steps = 2, learning_rate = 0.1 }
strategies = [{ name = "fedavg", cohort = [2, 3] }, "deadly:Deadly"]
"""


@pytest.fixture
def experiment(tiny):
    return Experiment.read(tiny)


def test_a_cell_is_kept_as_its_worker_sends_it(experiment, tmp_path):
    """What a worker does, without one."""
    document = json.dumps(experiment.document())
    with begin_run(Unfinished(tmp_path / "cells", "run", experiment)) as unfinished:
        for label in ("fedavg cohort=2", "fedavg cohort=3", "unbiased"):
            unfinished.kept.keep_content(label, on_ray.compute_cell(document, label, [], os.getcwd()))
        unfinished.run()
    run(experiment, tmp_path / "whole")
    same_numbers(tmp_path / "cells", tmp_path / "whole")


def test_a_worker_with_other_versions_is_named(experiment, tiny, tmp_path):
    other = json.dumps(Experiment.read(tiny | {"rounds": 5}).document())
    content = on_ray.compute_cell(other, "unbiased", [], os.getcwd())
    with begin_run(Unfinished(tmp_path / "cells", "run", experiment)) as unfinished:
        with pytest.raises(UserError, match=r"--on ray: unbiased: belongs to another .*: workers must be like"):
            on_ray._keep(unfinished.kept, "unbiased", content)
        assert unfinished.kept.is_empty


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install ray"):
        on_ray.import_ray()


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Start the command in a folder with an experiment whose strategy kills the first worker that uses it."""
    pytest.importorskip("ray")
    (tmp_path / "deadly.py").write_text(DEADLY)
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    (tmp_path / "claim.toml").write_text(CLAIM)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: subprocess.Popen(
        [sys.executable, "-m", "turnout", *arguments, "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end_of(process):
    output, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    return output


def kill_after_a_cell(driver, folder):
    """Kill the driver as soon as it has kept a cell."""
    until = time.monotonic() + 200
    while not list(folder.rglob("point-*.npz")):
        assert driver.poll() is None, driver.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.02)
    driver.kill()
    driver.communicate()
    assert list(folder.rglob("point-*.npz"))


@pytest.mark.integration
def test_a_worker_that_is_killed_is_replaced(command, tmp_path):
    asked = ("run", "experiment.toml", "--out")
    assert end_of(command(*asked, "cells", "--on", "ray")) == "cells\n"
    assert (tmp_path / "killed").exists()
    end_of(command(*asked, "whole"))
    same_numbers(tmp_path / "cells", tmp_path / "whole")


@pytest.mark.integration
def test_cells_outlive_their_driver(command, tmp_path):
    asked = ("tune", "experiment.toml", "--metric", "train_loss", "--seeds", "2", "--out")
    kill_after_a_cell(command(*asked, "cells", "--on", "ray"), tmp_path / "cells")
    end_of(command("tune", "--resume", "cells", "--on", "ray"))
    end_of(command(*asked, "whole"))
    for name in ("tuning.csv", "experiment.toml"):
        assert (tmp_path / "cells" / name).read_text() == (tmp_path / "whole" / name).read_text()


@pytest.mark.integration
def test_a_claim_outlives_a_worker_and_its_driver(command, tmp_path):
    asked = ("reproduce", "claim.toml", "--out")
    kill_after_a_cell(command(*asked, "cells", "--on", "ray"), tmp_path / "cells")
    assert end_of(command(*asked, "cells", "--on", "ray")) == "cells/quick/claim\n"
    assert (tmp_path / "killed").exists()
    end_of(command(*asked, "whole"))
    curves = [tmp_path / out / "quick" / "claim" / "curves.csv.gz" for out in ("cells", "whole")]
    assert curves[0].read_bytes() == curves[1].read_bytes()
    assert [folder.name for folder in (tmp_path / "cells" / "quick").iterdir()] == ["claim"]
