"""When clients were online, from the activations and heartbeats that the SuperLink tells of their nodes."""

import datetime
import json
import time

import pytest

pytest.importorskip("flwr")

from flwr.proto.node_pb2 import NodeInfo
from inprocess import FakeClock, InProcessGrid
from test_record import MODEL, SMALL

from turnout.flower import Files, FlowerStrategy, Waiting
from turnout.flower.fleet.directory import Sessions, is_overdue
from turnout.flower.wire.messages import to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg
from turnout.workbench.diagnosis.reading.log_file import read_log

NOON = 1_800_000_000.0


def node(activated, heartbeat, interval=30.0):
    """A node that came online at one time, and was last heard at another."""
    written = datetime.datetime.fromtimestamp(activated, datetime.UTC).isoformat()
    return NodeInfo(
        node_id=5, last_activated_at=written, online_until=heartbeat + 2 * interval, heartbeat_interval=interval
    )


def seconds(sessions):
    times = [tuple(datetime.datetime.fromisoformat(time).timestamp() - NOON for time in row[1:]) for row in sessions]
    return dict(zip([row[0] for row in sessions], times, strict=True))


def test_a_session_lasts_from_the_activation_to_the_last_heartbeat():
    sessions = Sessions()
    sessions.note("a", node(NOON - 50, NOON - 5), NOON)  # it was there before the first look
    sessions.note("b", node(NOON - 50, NOON - 5), NOON)
    sessions.note("a", node(NOON - 50, NOON + 90), NOON + 100)
    sessions.note("b", node(NOON - 50, NOON + 20), NOON + 100)  # silent for 80 s, but still listed
    sessions.note("c", node(NOON + 70, NOON + 95), NOON + 100)
    assert seconds(sessions.rows()) == {"a": (0, 100), "b": (0, 20), "c": (70, 100)}


def test_a_client_that_is_listed_is_online_until_a_heartbeat_is_missed():
    sessions = Sessions()
    sessions.note("a", node(NOON, NOON), NOON)
    sessions.note("b", node(NOON, NOON), NOON)
    sessions.go_on(["a", "b"], NOON + 40)
    sessions.go_on(["a"], NOON + 70)
    sessions.go_on(["a", "b"], NOON + 80)  # b is back, at a node of which nothing is known yet
    assert seconds(sessions.rows()) == {"a": (0, 80), "b": (0, 40)}


def test_a_restart_of_the_client_begins_a_session_and_one_of_the_server_does_not():
    sessions, after = Sessions(), Sessions()
    sessions.note("a", node(NOON, NOON), NOON)
    sessions.note("a", node(NOON, NOON + 30), NOON + 30)
    after.restore(json.loads(json.dumps(sessions.state())))
    after.note("a", node(NOON, NOON + 300), NOON + 310)
    after.note("a", node(NOON + 500, NOON + 500), NOON + 510)
    assert [row[0] for row in after.rows()] == ["a", "a"]
    assert [seconds([row])["a"] for row in after.rows()] == [(0, 310), (500, 510)]


def test_a_grid_without_heartbeats_has_no_sessions():
    sessions = Sessions()
    sessions.note("a", NodeInfo(node_id=5), NOON)
    assert not is_overdue(NodeInfo(node_id=5), NOON)
    assert sessions.rows() == []


LEAVES = 100.0  # seconds after noon at which client 3 is heard for the last time


class GridWithHeartbeats(InProcessGrid):
    """Clients that are heard all the time; client 3 falls silent, and is listed still."""

    def get_nodes(self):
        nodes, now = super().get_nodes(), self.clock.now()
        for node in nodes:
            heard = min(now, LEAVES) if node.node_id == self.nodes["3"] else now
            node.last_activated_at = datetime.datetime.fromtimestamp(NOON, datetime.UTC).isoformat()
            node.online_until, node.heartbeat_interval = NOON + heard + 60.0, 30.0
        return nodes


def test_the_run_folder_tells_when_clients_were_online(tmp_path, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(time, "time", lambda: NOON + clock.now())
    grid = GridWithHeartbeats(
        SMALL,
        lambda _t: ["1", "2", "3"],
        lambda name, _turn, _message: "silent" if name == "3" and clock.now() >= LEAVES else "answer",
        clock=clock,
        takes=lambda _name, _turn, message: 50.0 if message.metadata.message_type == "train" else 0.0,
    )
    flower = FlowerStrategy(
        FedAvg(), files=Files(record=tmp_path / "run"), local=Local(learning_rate=0.5), waiting=Waiting(clock=clock)
    )
    flower.start(grid, to_record(MODEL), num_rounds=4, timeout=300.0)
    log = read_log(tmp_path / "run" / "sessions.csv", slot_seconds=20.0)
    assert log.names.tolist() == ["id:1", "id:2", "id:3"]
    assert log.present.slots_of(3).tolist() == [log.num_slots, log.num_slots, 5]
    assert log.num_slots > 10
    assert flower.records[-1].available == ("id:1", "id:2")
