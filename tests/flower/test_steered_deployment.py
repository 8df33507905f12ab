"""SCAFFOLD and FOCUS on SuperNodes as processes, one of which is killed between its upload and the acknowledgement."""

import re
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")

from deployment import ROOT, Deployment, participation, until

from turnout.files.archive import read_archive

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="finds its processes in /proc"),
]

APP = ROOT / "tests" / "flower" / "steered_app"
ROUNDS = 6
# The round goes on after b has answered, so that b can be killed in it.
NODES = {"a": {"number": 1.0, "seconds": 12.0}, "b": {"number": 2.0}, "c": {"number": 5.0, "seconds": 12.0}}


def has_sent(fleet, name, t):
    """Whether a node has sent what it has to say in a round, by its own log."""
    return re.search(rf"ROUND {t}\].*\n.*Sending: train(.*\n)+?.*Sent successfully", fleet.log(name))


def words(folder):
    """The server's sum of all words, and the one that each client keeps by the server's own acknowledgement."""
    header, leaves = read_archive(folder / "state.npz")
    assert header["epoch"] == 0  # nobody has lost its word
    (total,) = (rows for path, rows in leaves.items() if ".strategy.total" in path)
    last = leaves["[1].last"]  # of the sums per client: the round of the last upload that arrived
    kept = {}
    for name, t in zip(header["clients"], last, strict=True):
        path = folder / f"memory-{name.removeprefix('id:')}.npz"
        (own,) = (rows for path, rows in read_archive(path)[1].items() if path.startswith(f"{int(t) + 1} .algorithm"))
        kept[name] = own
    return total.astype(float), kept


@pytest.mark.parametrize("strategy", ["scaffold", "focus"])
def test_the_mean_of_the_clients_words_survives_a_kill(tmp_path, strategy):
    """Node b is killed as soon as its upload of round 2 is out, long before the server has acknowledged it."""
    out = tmp_path / "out"
    out.mkdir()
    with Deployment(tmp_path / "fleet") as fleet:
        fleet.start_link()
        fleet.start_nodes(NODES)
        run = fleet.run(APP, strategy=strategy, num_rounds=ROUNDS, folder=str(out))
        until("the upload of b in round 2", 300, lambda: has_sent(fleet, "b", 2))
        fleet.kill("b")
        closed = {row["round"] for row in participation(out) if row["event"] == "round"}
        fleet.restart_until_joined("b", **NODES["b"])
        until("the training to end", 900, lambda: (out / "model.npz").exists())
        said = fleet.server_log(run)
    assert not fleet.processes()
    assert "1" not in closed, "the round was over before b was killed: its upload was acknowledged"
    arrived = {(row["client"], int(row["round"])) for row in participation(out) if row["event"] == "arrived"}
    assert ("id:b", 1) in arrived, said
    assert len([t for client, t in arrived if client == "id:b" and t > 1]) >= 1, said
    total, kept = words(out)
    assert set(kept) == {"id:a", "id:b", "id:c"}
    mean, largest = np.mean(list(kept.values()), axis=0), max(np.abs(own).max() for own in kept.values())
    assert largest > 0.1
    np.testing.assert_allclose(total / len(kept), mean, atol=1e-6 * largest)
    with np.load(out / "model.npz") as file:
        assert np.isfinite(file["arr_0"]).all()
