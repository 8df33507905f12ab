"""A finished run in the words of experiment trackers: stand-ins here, the libraries themselves in the last test."""

import json
import struct
import sys
import types

import numpy as np
import pytest

from tiny_experiment import TINY
from turnout.errors import UserError
from turnout.simulator.history import History
from turnout.workbench import Experiment
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.report import tracking
from turnout.workbench.report.tracking import import_tracker, log_to, tracked_runs

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 3, 2) + b"rest"
NAMES = ["fedavg, seed 0", "fedavg, seed 1", "unbiased, seed 0", "unbiased, seed 1"]


def outcome(label, seed):
    rng = np.random.default_rng(seed)
    history = History(
        seeds=(0, 1),
        rounds=4,
        evaluated=np.array([0, 2, 4]),
        metrics={"train_loss": rng.uniform(0.1, 1.0, (2, 3)), "distance": rng.uniform(0.1, 1.0, (2, 3))},
        records={"uploads": np.full((2, 4), 3.0)},
        clients={"available": np.full((2, 5), 4.0), "weight": np.full((2, 5), 0.2)},
        params=[],
        target=np.full(5, 0.2),
    )
    return Outcome(label, label, {"server.learning_rate": 0.5}, history)


@pytest.fixture(scope="module")
def run():
    experiment = Experiment.read(TINY | {"strategies": ["fedavg", "unbiased"]})
    return Run(experiment, (outcome("fedavg", 0), outcome("unbiased", 1)), 1.0)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "report.html").write_text("the report")
    (folder / "learning.png").write_bytes(PNG)
    return folder


class Recorder:
    """Stands for any object of a library: notes every call, and answers with itself."""

    def __init__(self, calls):
        self._calls = calls

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*given, **named):
            self._calls.append((name, given, named))
            return self

        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def calls_of(calls, name):
    return [(given, named) for called, given, named in calls if called == name]


def test_every_strategy_and_seed_is_a_run_of_its_own(run):
    tracked = list(tracked_runs(run))
    assert [one.name for one in tracked] == NAMES
    last = tracked[-1]
    assert last.settings == {
        "strategy": "unbiased", "label": "unbiased", "seed": 1, "rounds": 4, "server.learning_rate": 0.5
    }  # fmt: skip
    values = run.points[1].history.metrics["distance"][1]
    assert last.curves["distance"] == [(0, values[0]), (2, values[1]), (4, values[2])]
    assert last.totals == {"uploads": 12.0}


def test_mlflow(run, folder, monkeypatch):
    calls = []
    client = Recorder(calls)
    client.info = types.SimpleNamespace(run_id="id")
    client.experiment_id = "7"
    entities = types.SimpleNamespace(Param=lambda *given: given, Metric=lambda *given: given)
    module = types.SimpleNamespace(MlflowClient=lambda: client, entities=entities, get_tracking_uri=lambda: "file")
    monkeypatch.setitem(sys.modules, "mlflow", module)
    assert log_to("mlflow", run, folder) == "MLflow: file"
    created = calls_of(calls, "create_run")
    assert [named["run_name"] for _, named in created] == ["first", *NAMES]
    assert all(named["tags"] == {"mlflow.parentRunId": "id"} for _, named in created[1:])
    batches = calls_of(calls, "log_batch")
    assert ("seed", "1") in batches[2][1]["params"]
    assert [(name, t) for name, _, _, t in batches[1][0][1]] == [
        *(("train_loss", t) for t in (0, 2, 4)), *(("distance", t) for t in (0, 2, 4)), ("uploads", 4)
    ]  # fmt: skip
    assert [given[1].rpartition("/")[2] for given, _ in calls_of(calls, "log_artifact")] == [
        "report.html",
        "learning.png",
    ]
    ((_, table, name), _), *_ = calls_of(calls, "log_text")
    assert (name, len(table.splitlines())) == ("results.jsonl", 3)
    assert "label" in json.loads(table.splitlines()[0])
    assert len(calls_of(calls, "set_terminated")) == 5


def test_wandb(run, folder, monkeypatch):
    calls, inits, tables = [], [], []
    one = Recorder(calls)
    one.summary = Recorder(calls)
    module = types.SimpleNamespace(
        init=lambda **named: inits.append(named) or one,
        Table=lambda columns, data: tables.append((columns, data)) or "table",
        Artifact=lambda *_, **__: one,
    )
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    assert log_to("wandb", run, folder) == "W&B: project turnout, group first"
    assert [init["name"] for init in inits] == [*NAMES, "first"]
    assert {(init["project"], init["group"]) for init in inits} == {("turnout", "first")}
    logged = calls_of(calls, "log")
    assert [named["step"] for _, named in logged[:3]] == [0, 2, 4]
    assert set(logged[0][0][0]) == {"train_loss", "distance"}
    assert logged[-1][0] == ({"results": "table"},)
    ((columns, rows),) = tables
    assert [row[columns.index("label")] for row in rows] == ["fedavg", "unbiased"]
    assert [given[0].rpartition("/")[2] for given, _ in calls_of(calls, "add_file")] == ["report.html", "learning.png"]


def test_tensorboard(run, folder, monkeypatch):
    calls, places = [], []
    writer = Recorder(calls)
    writer.file_writer = Recorder(calls)
    module = types.SimpleNamespace(SummaryWriter=lambda place: places.append(place) or writer)

    def made(**fields):
        return fields

    made_summary = types.SimpleNamespace(Image=made, Value=made)
    summary = type("Summary", (), {"__new__": lambda cls, **fields: fields, **vars(made_summary)})
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    monkeypatch.setitem(sys.modules, "tensorboardX.proto.summary_pb2", types.SimpleNamespace(Summary=summary))
    (folder / "tensorboard").mkdir()
    (folder / "tensorboard" / "of before").write_text("")
    assert log_to("tensorboard", run, folder) == f"TensorBoard: tensorboard --logdir {folder / 'tensorboard'}"
    assert not (folder / "tensorboard").exists()  # the stand-in writes nothing
    assert [place.rpartition("/")[2] for place in places] == [
        "0-fedavg_seed_0", "1-fedavg_seed_1", "2-unbiased_seed_0", "3-unbiased_seed_1", "results"
    ]  # fmt: skip
    scalars = [given for given, _ in calls_of(calls, "add_scalar")]
    assert len(scalars) == 4 * 7
    assert scalars[6] == ("total/uploads", 12.0, 4)
    texts = {given[0]: given[1] for given, _ in calls_of(calls, "add_text")}
    assert "unbiased" in texts["results"]
    (((picture,), _),) = [(given[0]["value"], named) for given, named in calls_of(calls, "add_summary")]
    assert (picture["tag"], picture["image"]["width"], picture["image"]["height"]) == ("learning", 3, 2)


@pytest.mark.parametrize("tracker", list(tracking.MODULES))
def test_a_library_that_is_not_installed(monkeypatch, tracker):
    module = tracking.MODULES[tracker]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=f"--log-to {tracker}: {module} is not installed: pip install {module}"):
        import_tracker(tracker)


def test_a_tracker_that_fails_leaves_the_run_and_says_how_to_tell_it_again(run, folder, monkeypatch):
    def refuse(**_):
        raise RuntimeError("no key")

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=refuse))
    with pytest.raises(UserError, match=r"RuntimeError: no key: .* turnout report .*first --log-to wandb"):
        log_to("wandb", run, folder)


@pytest.mark.integration
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("tracker", "left"),
    [("mlflow", "mlflow.db"), ("wandb", "wandb/offline-run-*"), ("tensorboard", "first/tensorboard/*/events*")],
)
def test_the_library_itself_keeps_the_runs_without_a_network(run, folder, monkeypatch, tracker, left):
    pytest.importorskip(tracking.MODULES[tracker])
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("WANDB_MODE", "offline")
    log_to(tracker, run, folder)
    assert len(list(folder.parent.glob(left))) == (1 if tracker == "mlflow" else 5)
