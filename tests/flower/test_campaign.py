"""A fleet of processes under random kills, stops, a slow and a lying client, and a server that is killed.

`make test-flower-faults`; about a quarter of an hour for each strategy. TURNOUT_SECONDS sets the length of local work.
"""

import datetime
import itertools
import json
import os
import random
import signal
import sys
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("flwr")

from deployment import ROOT, Deployment, participation, until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="finds its processes in /proc"),
]

APP = ROOT / "tests" / "flower" / "campaign"
ROUNDS = 15
SECONDS = float(os.environ.get("TURNOUT_SECONDS", "35"))
NODES = {f"n{number}": {"number": float(number)} for number in range(1, 7)}
NODES["n2"]["slowness"] = 4.0
NODES["n5"]["scale"] = 1000.0
SOUND = [name for name in NODES if name not in ("n2", "n5")]


class Lives:
    """When each node's process was alive and running."""

    def __init__(self):
        self.begun, self.spans = {}, {name: [] for name in NODES}

    def up(self, name):
        self.begun[name] = time.time()

    def down(self, name):
        self.spans[name].append((self.begun.pop(name), time.time()))

    def over(self):
        for name in list(self.begun):
            self.down(name)

    def alive(self, name, begin, end):
        return any(first <= begin and end <= last for first, last in self.spans[name])


def disturb(fleet, lives, draw, out, settings):
    """Two nodes are killed and come back, one stands still for 30 seconds, then the server is killed; twice over."""
    gaps = []
    for victims in (draw.sample(SOUND, 3), draw.sample(SOUND, 3)):
        for name in victims[:2]:
            time.sleep(draw.uniform(0.3, 1.2) * SECONDS)
            fleet.kill(name)
            lives.down(name)
            time.sleep(draw.uniform(0.3, 1.0) * SECONDS)
            fleet.restart_until_joined(name, **NODES[name])
            lives.up(name)
        time.sleep(draw.uniform(0.3, 1.0) * SECONDS)
        fleet.started[victims[2]].send_signal(signal.SIGSTOP)
        lives.down(victims[2])
        time.sleep(30)
        fleet.started[victims[2]].send_signal(signal.SIGCONT)
        lives.up(victims[2])
        if not gaps:
            begin = time.time()
            fleet.kill_server_app()
            until("the old run to end", 120, lambda: "running" not in fleet.status(fleet.runs[-1]))
            fleet.run(APP, **settings)
            gaps.append((begin, time.time() + 2 * SECONDS))
    return gaps


def moments(rows):
    """When each round was closed."""
    closed = {}
    for row in rows:
        if row["event"] == "round":
            closed[int(row["round"])] = datetime.datetime.fromisoformat(row["timestamp"]).timestamp()
    return [closed[t] for t in range(len(closed))]


def seen_share(rows, lives, gaps):
    """Of the rounds in which a node was alive and settled, the share in which the server saw it."""
    ends, seen = moments(rows), {(row["client"], int(row["round"])) for row in rows if row["event"] in SIGNS}
    counts = Counter()
    for name in NODES:
        for t in range(2, len(ends)):
            begin, end = ends[t - 2], ends[t]
            disturbed = any(first < end and begin < last for first, last in gaps)
            if lives.alive(name, begin, end) and not disturbed:
                counts[name, "settled"] += 1
                counts[name, "seen"] += (f"id:{name}", t) in seen
    return {name: (counts[name, "seen"], counts[name, "settled"]) for name in NODES}


SIGNS = ("available", "listed", "late")


@pytest.mark.parametrize("strategy", ["mifa", "ca_fed", "last_word_on_clients"])
def test_a_fleet_under_faults(tmp_path, strategy):
    out, draw, lives = tmp_path / "out", random.Random(f"{strategy} 5"), Lives()
    out.mkdir()
    settings = {"strategy": strategy, "num_rounds": ROUNDS, "seconds": SECONDS, "folder": str(out)}
    with Deployment(tmp_path / "fleet") as fleet:
        fleet.start_link()
        fleet.start_nodes(NODES)
        for name in NODES:
            lives.up(name)
        fleet.run(APP, **settings)
        until(
            "the second round",
            20 * SECONDS,
            lambda: out.joinpath("participation.csv").exists() and len(moments(participation(out))) >= 1,
        )
        gaps = disturb(fleet, lives, draw, out, settings)
        until("the training to end", 60 * ROUNDS + 30 * SECONDS, (out / "model.npz").exists)
        lives.over()
        said = fleet.server_log(fleet.runs[-1])
    rows = participation(out)
    ends = moments(rows)
    assert len(ends) == ROUNDS
    shares = seen_share(rows, lives, gaps)
    lengths = [after - before for before, after in itertools.pairwise(ends)]
    print(strategy, shares, "rounds of", [round(length) for length in lengths], said[-500:])
    assert sum(seen for seen, _ in shares.values()) >= 0.9 * sum(settled for _, settled in shares.values())
    assert sum(settled for _, settled in shares.values()) >= ROUNDS
    books = {name: [json.loads(line) for line in _lines(out / f"books-{name}.jsonl")] for name in NODES}
    events = Counter((row["client"], row["round"], row["event"]) for row in rows)
    for client, t, event in events:
        if event == "arrived" and (client, t, "late") not in events:
            assert int(t) + 1 in [line["round"] for line in books[client.removeprefix("id:")]]
    usual = float(np.median([line["ended"] - line["begun"] for name in SOUND for line in books[name]]))
    assert usual >= SECONDS
    with np.load(out / "model.npz") as file:
        model = file["arr_0"]
    calm = np.mean([NODES[name]["number"] for name in NODES])
    print("model", model, "calm", calm, "client", usual, "median round", float(np.median(lengths)))
    assert np.abs(model - calm).max() < 1.0
    if strategy == "mifa":  # one phase: the slow client does not set the pace
        assert np.median(lengths) <= 1.5 * usual


def _lines(path):
    return path.read_text().splitlines() if path.exists() else []
