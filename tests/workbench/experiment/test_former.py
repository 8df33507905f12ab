"""Files, run folders and results that an earlier turnout wrote are read as they were meant."""

import json
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from turnout.server.facts import Online
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA
from turnout.workbench.experiment import toml
from turnout.workbench.experiment.deployed import describe_training
from turnout.workbench.experiment.experiment_file import Experiment, read_experiment
from turnout.workbench.experiment.former import up_to_date
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.store import load, save
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.trust import Code, names_code
from turnout.workbench.experiment.unfinished import read_unfinished

ON_NODES = {
    "task": {"name": "turnout.experiment.deployed:clients", "number": 3},
    "availability": {"name": "turnout.experiment.deployed:nature"},
    "strategies": [{"name": "turnout.reproduction.variants:Pooled", "label": "turnout.experiment.is: not a name"}],
}


def test_modules_that_moved_are_found(tiny):
    document = up_to_date(tiny | ON_NODES)
    assert document["task"]["name"] == "turnout.workbench.experiment.deployed:clients"
    assert document["strategies"][0]["name"] == "turnout.workbench.reproduction.variants:Pooled"
    assert document["strategies"][0]["label"] == ON_NODES["strategies"][0]["label"]
    assert not names_code(document)
    assert Experiment.read(document, Code.UNREAD).task.arguments == {"number": 3}


def test_what_is_up_to_date_stays_as_it_is(tiny):
    assert up_to_date(tiny) == tiny
    assert up_to_date(up_to_date(tiny | ON_NODES)) == up_to_date(tiny | ON_NODES)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (
            {"name": "separated", "strategy": "unbiased", "separation": 3},
            {"name": "unbiased", "label": "separated", "server": {"rest": 3}},
        ),
        (
            {"name": "separated", "strategy": {"name": "fedavg", "cohort": [2, 3]}, "separation": [0, 1, 2]},
            {"name": "fedavg", "cohort": [2, 3], "label": "separated", "server": {"rest": [0, 1, 2]}},
        ),
        (
            {"name": "separated", "strategy": "fedavg", "separation": 1, "label": "R", "server": {"radius": 2.0}},
            {"name": "fedavg", "label": "R", "server": {"radius": 2.0, "rest": 1}},
        ),
        (
            {"name": "separated", "separation": 1, "strategy": {"name": "separated", "separation": 4, "strategy": "a"}},
            {"name": "a", "label": "separated", "server": {"rest": 4}},
        ),
    ],
)
def test_a_strategy_that_rested_another_is_that_strategy_with_a_rest(tiny, before, now):
    assert up_to_date(tiny | {"strategies": [before]})["strategies"] == [now]
    in_claim = {"panels": {"rests": {"strategies": [before]}}, "tuning": {"keep": ["strategy.separation"]}}
    assert up_to_date(in_claim) == {"panels": {"rests": {"strategies": [now]}}, "tuning": {"keep": ["server.rest"]}}


def test_a_sweep_over_rests_of_before_is_read(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny["strategies"] = [{"name": "separated", "strategy": {"name": "fedavg"}, "separation": [0, 2]}]
    (tmp_path / "before.toml").write_text(toml.write(tiny))
    grid = points(read_experiment("before.toml"))
    assert [(point.label, point.server.arguments["rest"]) for point in grid] == [
        ("separated rest=0", 0),
        ("separated rest=2", 2),
    ]


def test_an_unfinished_run_of_before_is_read(tmp_path, tiny):
    document = tiny | {"strategies": [{"name": "separated", "strategy": "unbiased", "separation": 1}]}
    start = {"command": "tune", "experiment": document, "options": {"keep": ["strategy.strategy.cohort"]}}
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "start.json").write_text(json.dumps(start | {"modules": None, "origin": {}}))
    unfinished = read_unfinished(tmp_path)
    assert unfinished.experiment.strategies[0].strategy.name == "unbiased"
    assert unfinished.options == {"keep": ["strategy.cohort"]}


@pytest.fixture
def finished(tiny):
    """A run over rests, in another order than before, when they came first."""
    entrant = {"name": "fedavg", "cohort": [2, 3], "label": "separated", "server": {"rest": [0, 1]}}
    tiny |= {"local": {"steps": 2, "learning_rate": [0.1, 0.2]}, "strategies": [entrant]}
    return run(Experiment.read(tiny))


def labels_of_before():
    """Labels of before by the present ones, in their order then."""
    return {
        f"separated cohort={cohort} learning_rate={rate} rest={rest}": (
            f"separated cohort={cohort} separation={rest} learning_rate={rate}"
        )
        for cohort in (2, 3)
        for rest in (0, 1)
        for rate in (0.1, 0.2)
    }


def write_as_before(run, folder):
    """Leave a run as it was left when a rest was a strategy around another one."""
    save(run, folder)
    former = labels_of_before()
    document = toml.read(folder / "experiment.toml")
    inner = {"name": "fedavg", "cohort": [2, 3], "normaliser": "received"}
    entrant = {"name": "separated", "strategy": inner, "separation": [0, 1], "label": "separated"}
    (folder / "experiment.toml").write_text(toml.write(document | {"strategies": [entrant]}))
    columns = {"strategy.cohort": "strategy.strategy.cohort", "server.rest": "strategy.separation"}
    for name in ("history", "clients", "attendance"):
        table = pl.read_parquet(folder / f"{name}.parquet")
        parts = [table.filter(pl.col("label") == label) for label in former]
        table = pl.concat(parts).rename(columns, strict=False).with_columns(pl.col("label").replace(former))
        table.write_parquet(folder / f"{name}.parquet")
    with np.load(folder / "models.npz") as stored:
        models = dict(stored)
    now = [outcome.label for outcome in run.points]
    numbers = {str(now.index(label)): str(place) for place, label in enumerate(former)}
    parted = {key: key.partition("/") for key in models}
    np.savez(folder / "models.npz", **{f"{numbers[parted[key][0]]}/{parted[key][2]}": models[key] for key in models})
    about = json.loads((folder / "run.json").read_text())
    about |= {"labels": list(former.values())}
    about["seconds_of_a_run"] = {former[label]: spent for label, spent in about["seconds_of_a_run"].items()}
    (folder / "run.json").write_text(json.dumps(about))
    for manifest in folder.glob("*manifest*"):
        manifest.unlink()


def test_a_run_folder_of_before_keeps_its_labels_and_numbers(finished, tmp_path):
    write_as_before(finished, tmp_path / "before")
    stored = load(tmp_path / "before")
    former = labels_of_before()
    assert [outcome.label for outcome in stored.points] == list(former.values())
    for now, before in former.items():
        assert stored[before].strategy == "fedavg"
        assert stored[before].settings == finished[now].settings
        assert stored[before].point.server == finished[now].point.server
        for name, values in finished[now].history.metrics.items():
            np.testing.assert_array_equal(stored[before].history.metrics[name], values)
        (model,) = stored[before].history.params.values()
        np.testing.assert_array_equal(model, finished[now].history.params)


def test_a_run_folder_of_before_that_is_saved_again_reads_the_same(finished, tmp_path):
    write_as_before(finished, tmp_path / "before")
    stored = load(tmp_path / "before")
    save(stored, tmp_path / "again")
    shutil.rmtree(tmp_path / "before")
    again = load(tmp_path / "again")
    assert [outcome.label for outcome in again.points] == [outcome.label for outcome in stored.points]
    assert again.experiment == stored.experiment


MOVING = ("mifa", "fedlaavg", "stale_fill")


def without_rules(document):
    """The document of a run as it was written before strategies had rules for empty rounds."""
    new = ("moves_when_empty", "rule")
    former = [{key: item for key, item in entry.items() if key not in new} for entry in document["strategies"]]
    return document | {"strategies": former}


def test_a_run_folder_of_before_moved_in_empty_rounds(tiny, tmp_path):
    save(run(Experiment.read(tiny | {"rounds": 2, "strategies": ["mifa"]})), tmp_path / "run")
    path = tmp_path / "run" / "experiment.toml"
    assert load(tmp_path / "run").experiment.strategies[0].strategy.arguments["moves_when_empty"] is False
    path.write_text(toml.write(without_rules(toml.read(path))))
    for manifest in path.parent.glob("*manifest*"):
        manifest.unlink()
    assert load(tmp_path / "run").experiment.strategies[0].strategy.arguments["moves_when_empty"] is True


@pytest.mark.parametrize("metrics", [None, ("train_loss",)])
def test_so_is_every_document_of_a_run(tiny, metrics):
    experiment = Experiment.read(tiny | {"strategies": [*MOVING, "last_word", "fedavg"]})
    document = replace(experiment, metrics=metrics).document()
    found = {entry["name"]: entry for entry in up_to_date(without_rules(document))["strategies"]}
    assert all(found[name]["moves_when_empty"] for name in MOVING)
    assert found["last_word"]["rule"] == "plain"
    assert found["fedavg"] == document["strategies"][-1]
    assert up_to_date(document) == document


def test_a_run_folder_of_real_nodes_is_read_in_the_same_way():
    settings = {"local": Local(), "server": ServerSettings(facts=Online())}
    rounds = {"num_clients": 3, "rounds": 4, "seed": 1, "evaluate_every": 1}
    document = describe_training(MIFA(), **rounds, **settings).document()
    assert document["strategies"][0]["moves_when_empty"] is False
    former = toml.parse(toml.write(without_rules(document)).encode(), "experiment.toml")
    assert Experiment.read(former, Code.UNREAD).strategies[0].strategy.arguments["moves_when_empty"] is True


@pytest.mark.parametrize("name", [*MOVING, "last_word"])
def test_a_file_that_a_person_wrote_gets_the_present_default(tiny, name):
    now = Experiment.read(tiny | {"strategies": [name]}).strategies[0].strategy.arguments
    assert now.get("moves_when_empty", False) is False
    assert now.get("rule", "news") == "news"
