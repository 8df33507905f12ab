"""The quickstart on a SuperLink and SuperNodes as processes, while nodes and the server are killed."""

import importlib
import sys
import tomllib
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("flwr")

from deployment import ROOT, Deployment, participation, until
from flwr.app import Context, RecordDict
from inprocess import InProcessGrid

from turnout.files.archive import read_archive

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="finds its processes in /proc"),
]

APP = ROOT / "examples" / "flower_quickstart"
SOUND, BROKEN = ("a", "b", "c"), {"data": "/nowhere/samples.npz"}
ROUNDS = 6
TIMEOUT = 60.0  # seconds that a round waits for a node that was killed; healthy ones take 5 to 10 on two cores
TOLERANCE = 0.05  # of the mean loss over the sound clients, which begins at log 2 = 0.69


@pytest.fixture
def quickstart(monkeypatch):
    """A module of the example by its name."""
    monkeypatch.syspath_prepend(str(APP))
    yield lambda name: importlib.import_module(f"quickstart.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "quickstart"]:
        del sys.modules[name]


def undisturbed(quickstart, folder):
    """The model of the same app with the sound clients always there, in this process."""
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config |= {"num-rounds": ROUNDS, "evaluate-every": 0, "folder": str(folder)}
    grid = InProcessGrid(quickstart("client_app").app, lambda _t: list(SOUND), run_config=config)
    quickstart("server_app").app(grid, Context(7, 1, {}, RecordDict(), config))
    return folder / "model.npz"


def mean_loss(quickstart, path):
    task = quickstart("task")
    with np.load(path) as file:
        model = [file[name] for name in file.files]
    assert all(np.isfinite(part).all() for part in model)
    return np.mean([task.loss_of(model, *task.made_up(client)) for client in SOUND])


def events(rows):
    return [(row["round"], row["client"], row["event"]) for row in rows]


def remembered(folder):
    """The checkpoint: its header, and for each client how long it was on, in usual rounds, and how often it arrived."""
    header, leaves = read_archive(folder / "state.npz")
    counts = [next(leaves[path] for path in leaves if path.endswith(f".facts.{name}")) for name in ("on", "arrived")]
    return header, dict(zip(header["clients"], zip(*counts, strict=True), strict=True))


def test_a_run_survives_its_nodes_and_its_server(tmp_path, quickstart):
    """Node b is killed at work and comes back, the ServerApp is killed in a round and started again, a client fails."""
    out = tmp_path / "out"
    settings = {"num_rounds": ROUNDS, "timeout": TIMEOUT, "evaluate_every": ROUNDS, "folder": str(out)}
    with Deployment(tmp_path / "fleet") as fleet:
        fleet.start_link()
        fleet.start_nodes({name: {} for name in SOUND} | {"broken": BROKEN})
        fleet.run(APP, **settings)
        fleet.await_work("b", 2)
        fleet.kill("b")
        fleet.start_nodes({"b": {}})
        fleet.await_work("a", 4)
        fleet.kill_server_app()
        kept = (out / "participation.csv").read_text()
        second = fleet.start_training(APP, **settings)
        until("the training to end", 600, lambda: fleet.ended("training"))
        said = fleet.server_log(second)
        assert fleet.started["training"].returncode == 0, said
    assert not fleet.processes()
    assert "Going on after round 3 with 4 clients" in said
    assert (out / "participation.csv").read_text().startswith(kept)
    rows = participation(out)
    assert [int(row["round"]) for row in rows if row["event"] == "round"] == list(range(ROUNDS))
    counts = Counter((row["client"], row["event"]) for row in rows)
    assert events(participation(out / "run")) == events(rows)
    header, memory = remembered(out)
    assert header["round"] == ROUNDS
    assert set(memory) == {"id:a", "id:b", "id:c", "id:broken"} == {row["client"] for row in rows} - {""}
    longest = memory["id:a"][0]
    assert longest >= ROUNDS - 1
    for client, (on, arrived) in memory.items():
        assert arrived == counts[client, "arrived"]
        assert on == longest if counts[client, "available"] == ROUNDS else 0 < on < longest
    assert counts["id:broken", "arrived"] == 0
    assert counts["id:broken", "failed"] >= ROUNDS - 1
    assert 2 <= counts["id:b", "arrived"] < ROUNDS  # before it was killed and after
    calm = mean_loss(quickstart, undisturbed(quickstart, tmp_path / "calm"))
    assert mean_loss(quickstart, out / "model.npz") == pytest.approx(calm, abs=TOLERANCE)
