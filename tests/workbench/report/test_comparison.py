"""`turnout.compare`: one object with a paired table, figures and a page."""

import pytest

import turnout
from turnout.strategies import FedAU, FedAvg

CLIENTS = 6


@pytest.fixture(scope="module")
def parts():
    task = turnout.tasks.quadratics(num_clients=CLIENTS, dimension=2)
    return task, turnout.World(turnout.availability.two_classes(CLIENTS))


@pytest.fixture(scope="module")
def comparison(parts):
    return turnout.compare(*parts, [FedAvg(), FedAvg(cohort=2), FedAU()], rounds=8, seeds=2, local=turnout.Local(0.1))


def test_everything_is_in_one_object(comparison, parts, tmp_path):
    assert comparison.labels == ["FedAvg 1", "FedAvg 2", "FedAU"]
    alone = turnout.simulate(*parts, FedAU(), rounds=8, seeds=2, local=turnout.Local(0.1))
    name = next(iter(alone.metrics))
    assert comparison["FedAU"].final(name).tolist() == alone.final(name).tolist()
    assert comparison.frame().columns == ["label", "seed", "round", "kind", "name", "value"]
    assert set(comparison.frame()["label"]) == set(comparison.labels)
    page = comparison.report(tmp_path / "page.html").read_text()
    assert "FedAvg 2" in page
    assert "How to get the same again" not in page
    assert comparison.plot().to_dict()
    with pytest.raises(KeyError, match="compared were FedAvg 1, FedAvg 2, FedAU"):
        comparison["fedavg"]


def test_what_a_notebook_shows_is_short(comparison):
    assert repr(comparison).startswith("Comparison of FedAvg 1, FedAvg 2, FedAU.")
    shown = repr(comparison["FedAU"])
    assert shown.startswith("History of 8 rounds, 2 seeds; at the end ")
    assert len(shown) < 500


def test_identical_runs_are_called_identical(parts):
    same = turnout.compare(*parts, {"a": FedAvg(), "b": FedAvg()}, rounds=3, seeds=2)
    assert "all are identical, at " in repr(same)
    assert "ends best" not in repr(same)
