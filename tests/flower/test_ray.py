"""The quickstart on Flower's simulation engine, with absences that we impose."""

import sys

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("ray", reason="Flower simulates with Ray: pip install 'flwr[simulation]'")

from deployment import ROOT, Deployment, participation, until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="finds its processes in /proc"),
]

NODES, ROUNDS = 10, 5


def clients(folder, event, t):
    return {row["client"] for row in participation(folder) if (row["event"], row["round"]) == (event, str(t))}


def test_simulated_nodes_come_and_go(tmp_path):
    out = tmp_path / "out"
    settings = {
        "num_rounds": ROUNDS,
        "availability": 0.5,
        "timeout": 120.0,
        "evaluate_every": ROUNDS,
        "folder": str(out),
    }
    with Deployment(tmp_path / "fleet", simulated=NODES) as fleet:
        fleet.start_link()
        run = fleet.run(ROOT / "examples" / "flower_quickstart", **settings)
        until("the model", 240, (out / "model.npz").exists)
        until("the run to be over", 60, lambda: fleet.status(run).startswith("finished"))
        said = fleet.server_log(run)
        assert fleet.status(run) == "finished:completed", said
    assert not fleet.processes()
    there, came = ([clients(out, event, t) for t in range(ROUNDS)] for event in ("available", "arrived"))
    assert there == came
    assert all(0 < len(some) < NODES for some in there)
    assert set().union(*there) <= {f"id:{partition}" for partition in range(NODES)}
    assert len(set(map(frozenset, there))) > 1
    with np.load(out / "model.npz") as model:
        assert all(np.isfinite(model[name]).all() for name in model.files)
    assert "accuracy" in said
