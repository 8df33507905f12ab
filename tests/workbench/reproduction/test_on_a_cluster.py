"""A claim whose points a cluster computes, which here is this process; ../experiment/test_on_ray.py has Ray."""

from types import SimpleNamespace

import pytest

from turnout.workbench import ExperimentError
from turnout.workbench.experiment import run as running
from turnout.workbench.experiment.on_ray import RayCells
from turnout.workbench.reproduction.claim import read_claim
from turnout.workbench.reproduction.reproduce import reproduce


class InProcess:
    """What is used of Ray; the task that was begun last comes first."""

    exceptions = SimpleNamespace(RayTaskError=(), WorkerCrashedError=())

    def __init__(self):
        self.cells = []  # labels of the cells in the order in which they were computed

    def remote(self, function):
        self.function = function
        return self

    def options(self, **needed):
        cluster = self

        class Task:
            def remote(self, *arguments):
                document, label, paths, place = arguments
                return cluster.function, document, label, tuple(paths), place

        return Task()

    def wait(self, tasks):
        return tasks[-1:], tasks[:-1]

    def get(self, task):
        function, document, label, paths, place = task
        self.cells.append(label)
        return function(document, label, list(paths), place)


@pytest.fixture
def cluster():
    return InProcess()


@pytest.fixture
def searched(tiny_claim, write_claim):
    """Two panels whose rate is searched with a seed of its own."""
    tiny_claim["experiment"]["local"]["learning_rate"] = [0.05, 0.1]
    tiny_claim |= {"panels": {"few": {}, "more": {"rounds": 5}}, "tuning": {"metric": "train_loss", "seeds": [7]}}
    return read_claim(write_claim(tiny_claim))


def simulated(monkeypatch):
    """The labels that this process simulates from now on, each time."""
    labels, plain = [], running._keep

    def watched(batch, indices, *others):
        labels.extend(batch.points[i].label for i in indices)
        return plain(batch, indices, *others)

    monkeypatch.setattr(running, "_keep", watched)
    return labels


def test_a_cluster_computes_every_point_once_and_gives_the_same_numbers(searched, cluster, tmp_path, monkeypatch):
    reproduce(searched, tmp_path / "whole")
    labels = simulated(monkeypatch)
    reproduce(searched, tmp_path / "cells" / "claim", cells=RayCells(lambda: cluster))
    search, run = ["fast learning_rate=0.05", "fast learning_rate=0.1", "slow"], ["fast", "slow"]
    assert sorted(cluster.cells) == sorted(labels) == sorted(2 * [*search, *run])  # the others are found as kept
    assert sorted(cluster.cells[:6]) == sorted(2 * search)  # both panels begin at once
    curves = [(tmp_path / out / "curves.csv.gz").read_bytes() for out in ("whole", "cells/claim")]
    assert curves[0] == curves[1]
    assert [folder.name for folder in (tmp_path / "cells").iterdir()] == ["claim"]


def test_what_came_before_the_end_is_not_computed_again(searched, cluster, tmp_path):
    def stop(share):
        if len(cluster.cells) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(searched, tmp_path / "claim", stop, cells=RayCells(lambda: cluster))
    assert 3 < len(cluster.cells) < 10
    reproduce(searched, tmp_path / "claim", cells=RayCells(lambda: cluster))
    assert len(cluster.cells) == 10


def test_a_panel_that_cannot_run_is_skipped_and_costs_the_others_nothing(tiny_claim, write_claim, cluster, tmp_path):
    lost = {"task": {"name": "csv", "path": str(tmp_path / "missing.csv")}}
    claim = read_claim(write_claim(tiny_claim | {"panels": {"lost": lost, "there": {}}}))
    reproduced = reproduce(claim, tmp_path / "claim", cells=RayCells(lambda: cluster))
    assert list(reproduced.panels) == ["there"]
    assert "missing.csv" in reproduced.skipped["lost"]


def test_cells_need_a_folder(searched, cluster):
    with pytest.raises(ValueError, match=r"give out, too"):
        reproduce(searched, cells=RayCells(lambda: cluster))
    assert not cluster.cells


def test_an_error_of_all_panels_is_raised(tiny_claim, write_claim, cluster, tmp_path):
    tiny_claim["experiment"]["task"] = {"name": "csv", "path": str(tmp_path / "missing.csv")}
    with pytest.raises(ExperimentError, match=r"missing\.csv"):
        reproduce(read_claim(write_claim(tiny_claim)), tmp_path / "claim", cells=RayCells(lambda: cluster))
