"""`turnout benchmark`: in the frozen worlds as they are shipped, and in tiny ones."""

import json
import sys

import numpy as np
import pytest
from cli_stage import documented, keys_of

from turnout.files.manifest import MANIFEST, EditedError, Manifest
from turnout.workbench import Experiment
from turnout.workbench.benchmark import worlds as frozen
from turnout.workbench.benchmark.scores import Ranked, Scored, lead
from turnout.workbench.benchmark.worlds import Worlds, listed_as, listed_strategies, stored_scores
from turnout.workbench.experiment.run import run
from turnout.workbench.reproduction.curve_table import Curve, Measured
from turnout.workbench.reproduction.measures import measure_values

# A change of a world, a rate or a seed makes another benchmark: it needs another version, and all scores anew.
DIGEST = "66604445"
WORLDS = """
title = "Tiny"
score = { name = "final", metric = "test_accuracy", last = 2 }
costs = ["bytes_uploaded"]
plain_step = { local = { learning_rate = [0.01, 0.1] }, server = { learning_rate = 1.0 } }
tuning = { metric = "validation_accuracy", seeds = [1000] }
[experiment]
rounds = 4
seeds = 2
evaluate_every = 2
metrics = ["test_accuracy", "validation_accuracy"]
task = { name = "synthetic_leaf", num_clients = 5, samples_per_client = 20, seed = "run" }
local = { batch_size = 4, learning_rate = 0.1 }
server = { learning_rate = [0.5, 1.0] }
[panels.even]
availability = { name = "two_classes", gap = 0.0 }
[panels.uneven]
availability = { name = "two_classes", gap = 0.4 }
"""
MINE = """
from turnout.strategies import Strategy

class Mine(Strategy[None]):
    server_memory = "O(1)"

def nothing():
    return 3
"""
RIVAL = {"scores": [0.2, 0.3], "bytes_uploaded": 7.0, "rates": {}}
SCORES = {
    "quick": {"Rival": {"strategy": {"name": "rival"}, "server_memory": "O(N)", "worlds": {"even": RIVAL}}},
    "full": {},
}


@pytest.fixture
def tiny(turnout, tmp_path, monkeypatch):
    """The command in tiny worlds, beside the scores of a rival who was never in one of them."""
    folder = tmp_path / "frozen"
    folder.mkdir()
    (folder / "worlds.toml").write_text(WORLDS)
    (folder / "strategies.toml").write_text('strategies = [{ name = "fedavg", cohort = 2 }]')
    (folder / "scores.json").write_text(json.dumps(SCORES))
    (folder / MANIFEST).write_text(Manifest.of(folder).text())
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(frozen, "frozen_folder", lambda: folder)
    return turnout


def test_the_worlds_are_those_of_the_version():
    for size, count in (("quick", 6), ("full", 14)):
        worlds = Worlds.read(size)
        assert worlds.digest.startswith(DIGEST)
        assert len(worlds.names) == count
        (panel, *_) = worlds.runs_of({"name": "feddyn"}).panels.values()
        assert set(worlds.document["tuning"]["seeds"]).isdisjoint(panel.seeds)
        assert panel.strategies[0].server.arguments == {"learning_rate": 1.0}  # sets the model itself


def test_scores_are_of_listed_strategies_in_these_worlds():
    listed = [entry["label"] for entry in listed_strategies()]
    for size in ("quick", "full"):
        worlds = Worlds.read(size)
        for label, table in stored_scores(size).items():
            record = Scored.parse(label, table)
            assert label in listed
            assert set(record.scores) <= set(worlds.names)
            assert {len(of_seeds) for of_seeds in record.scores.values()} == {worlds.document["experiment"]["seeds"]}


def test_a_listed_strategy_is_found_by_its_name_and_by_its_label():
    for entry in listed_strategies():
        assert listed_as(entry["label"]) == entry
    assert listed_as("fedavg") == {"name": "fedavg", "label": "FedAvg"}
    assert listed_as("FedAdam")["server"]["optimizer"] == "fedadam"
    assert listed_as("mine:Mine") is None


def test_a_stored_score_comes_out_again():
    worlds = Worlds.read("quick")
    stored = Scored.parse("FedAvg", stored_scores("quick")["FedAvg"])
    document = worlds.runs_of(stored.entry).panels["two classes"].document()
    for key, value in stored.rates["two classes"].items():
        table, _, name = key.partition(".")
        document[table][name] = value
    finished = run(Experiment.read(document | {"seeds": [0]}))
    history = finished.points[0].history
    curve = Curve("", "", "test_accuracy", history.evaluated, history.seeds, history.metrics["test_accuracy"])
    (score,) = measure_values(Measured([curve]), worlds.score, "", "")
    assert score == pytest.approx(stored.scores["two classes"][0], abs=0.003)


def test_a_changed_file_is_refused(tiny, tmp_path):
    worlds = tmp_path / "frozen" / "worlds.toml"
    worlds.write_text(WORLDS.replace("rounds = 4", "rounds = 8"))
    result = tiny("benchmark", "fedavg")
    assert result.exit_code == 2
    assert "worlds.toml: edited or damaged" in result.stderr
    assert result.stderr.count("\n") == 1
    (tmp_path / "frozen" / MANIFEST).unlink()
    with pytest.raises(EditedError, match="install turnout again"):
        Worlds.read("quick")


def test_a_strategy_of_ones_own_is_stopped_goes_on_and_stands_beside_the_stored(tiny, stopped, tmp_path):
    half = stopped("benchmark", "mine:Mine", after=2)  # the search and the runs of the first world
    assert half.exit_code == 130
    assert "go on with the same command" in half.stderr
    assert not (tmp_path / "runs" / "benchmark" / "quick" / "Mine").exists()
    result = stopped("benchmark", "mine:Mine", after=2)  # which is enough for the second world
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "runs" / "benchmark" / "quick" / "Mine"
    told = {"report.html", "result.json", "curves.csv.gz", "tuning.csv", "experiment-even.toml", MANIFEST}
    assert told <= {file.name for file in folder.iterdir()}
    assert not (folder.parent / ".panels").exists()
    assert "| Mine | 1.0 |" in result.stdout
    assert "turnout benchmark 1, quick (" in result.stdout
    again = stopped("benchmark", "mine:Mine", "--json", after=0)  # nothing is run
    numbers = json.loads(again.stdout)
    assert documented("benchmark") <= keys_of(numbers)
    assert numbers["leads"]["Mine"]["even"]["Rival"]["mean"] > 0
    assert numbers["leads"]["Mine"]["uneven"] == {}
    assert 'data-copy="line"' in (folder / "report.html").read_text()
    (tmp_path / "mine.py").write_text(MINE + "# another file\n")
    assert stopped("benchmark", "mine:Mine", after=0).exit_code == 130  # it would be run again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a strategy, such as mine:MyStrategy"),
        (["mifa", "--all"], "name a strategy"),
        (["mifa", "--quick", "--full"], "choose one"),
        (["mifo"], "did you mean 'mifa'"),
        (["absent:Mine"], "cannot import 'absent:Mine'"),
        (["mine:nothing"], "is no strategy: name a class"),
        (["mifa", "fedavg", "--set", "bits=8"], "--set: is for one strategy"),
        (["mifa", "--set", "bit=8"], "did you mean 'bits'"),
        (["mifa", "--set", "local.learning_rate=1.0"], "--set local: is given by the benchmark"),
        (["mifa", "--on", "slurm"], "give ray"),
    ],
)
def test_mistakes_are_one_line(tiny, arguments, message):
    result = tiny("benchmark", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_ranks_and_leads_are_by_the_means_and_paired():
    def record(label, **scores):
        return Scored(label, {}, "", {world: np.array(of) for world, of in scores.items()}, {}, {}, {})

    one, other = record("one", a=[0.5, 0.7], b=[0.1, 0.1]), record("other", a=[0.4, 0.6])
    standing = Ranked.of(["a", "b", "c"], [other, one])
    assert standing.worlds == ("a", "b")
    assert [shown.label for shown in standing.records] == ["one", "other"]
    assert (standing.rank(other, "a"), standing.mean_rank(one)) == (2, 1.0)
    found = lead(one, other, "a")
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))
    assert lead(one, other, "b") is None
