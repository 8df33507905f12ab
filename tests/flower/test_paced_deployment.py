"""A server that does not wait on real processes: nodes of speeds 1 to 10, one killed, one stopped, the server killed.

TURNOUT_SECONDS sets the length of the quickest client's work.
"""

import json
import os
import signal
import sys
import time
from collections import Counter

import numpy as np
import polars as pl
import pytest

pytest.importorskip("flwr")

from deployment import ROOT, Deployment, until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="finds its processes in /proc"),
]

APP = ROOT / "tests" / "flower" / "campaign"
SECONDS = float(os.environ.get("TURNOUT_SECONDS", "4"))
SLOWNESS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
NODES = {f"n{k}": {"number": float(k), "slowness": slow} for k, slow in enumerate(SLOWNESS, start=1)}
STEPS = int(os.environ.get("TURNOUT_STEPS", "20"))


def arrivals(out):
    path = out / "run" / "arrivals.parquet"
    return pl.read_parquet(path) if path.exists() else None


def steps_in(out):
    table = arrivals(out)
    return 0 if table is None else int(table["step"].max() or 0)


def diaries(out):
    """How often each client has done the work of each round, by its own diary."""
    done = Counter()
    for name in NODES:
        path = out / f"books-{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        done.update((f"id:{name}", json.loads(line)["round"]) for line in lines)
    return done


def test_a_buffered_server_goes_on_through_kills(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    settings = {"strategy": "last_word", "pace": "buffered", "num_rounds": STEPS, "seconds": SECONDS}
    settings |= {"folder": str(out), "timeout": 600.0}
    with Deployment(tmp_path / "fleet") as fleet:
        fleet.start_link()
        fleet.start_nodes(NODES)
        fleet.run(APP, **settings)
        until("three steps", 600, lambda: steps_in(out) >= 3)
        fleet.kill("n2")
        fleet.started["n3"].send_signal(signal.SIGSTOP)
        until("more steps without them", 600, lambda: steps_in(out) >= 6)
        fleet.started["n3"].send_signal(signal.SIGCONT)
        fleet.restart_until_joined("n2", **NODES["n2"])
        fleet.kill_server_app()
        before = steps_in(out)
        until("the old run to end", 120, lambda: "running" not in fleet.status(fleet.runs[-1]))
        fleet.run(APP, **settings)
        begun = time.time()
        until("the training to end", 60 * STEPS, (out / "model.npz").exists)
        said = fleet.server_log(fleet.runs[-1])
    table = arrivals(out)
    used = table.filter(pl.col("outcome") == "used")
    print(table, time.time() - begun, said[-1500:])
    assert before >= 6
    assert used["step"].max() == STEPS
    done = diaries(out)
    counted = Counter((row["client"], row["version"] + 1) for row in used.iter_rows(named=True))
    assert counted.total() == len(used)
    # Nothing counts that no node has done, and nothing more often than it was done.
    assert all(done[key] >= number for key, number in counted.items())
    answered = Counter(used["client"])
    assert len(answered) == len(NODES)
    assert answered["id:n1"] > answered["id:n6"]  # the quick are heard more often
    with np.load(out / "model.npz") as file:
        assert np.isfinite(file["arr_0"]).all()


CALM = float(np.mean([node["number"] for node in NODES.values()]))  # where everybody counts alike
NEAR = 0.35  # of numbers from 1 to 6


def seconds_to_calm(out):
    """Seconds from the first model until it is near the calm one, and stays there for the next three steps."""
    lines = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    near = [max(abs(part - CALM) for part in line["model"]) <= NEAR for line in lines]
    for place in range(len(near) - 3):
        if all(near[place : place + 4]):
            return lines[place]["time"] - lines[0]["time"]
    return None


def test_it_is_sooner_at_the_calm_model_than_rounds_with_everybody(tmp_path):
    took = {}
    for pace, steps in (("everybody", 10), ("buffered", 60)):
        out = tmp_path / pace
        out.mkdir()
        settings = {"strategy": "last_word", "pace": pace, "num_rounds": steps, "seconds": SECONDS}
        with Deployment(tmp_path / f"fleet {pace}") as fleet:
            fleet.start_link()
            fleet.start_nodes(NODES)
            fleet.run(APP, **settings, folder=str(out), timeout=600.0)
            until("the training to end", 3600, (out / "model.npz").exists)
        took[pace] = seconds_to_calm(out)
    print(took)
    assert None not in took.values()
    assert took["everybody"] >= 3.0 * took["buffered"]
