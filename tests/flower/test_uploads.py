"""Where lengths decide who uploads, an update stays with its client until it is asked for."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from inprocess import FakeClock, InProcessGrid

from turnout.flower import FlowerStrategy, Members, Waiting, client_app
from turnout.flower.greeted import KEPT
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import OptimalSampling

MODEL = {"w": np.zeros(2, np.float32), "seen": np.array(5)}
NAMES = [str(number) for number in range(1, 9)]


def train(arrays, config, context):
    gap = float(context.node_config["client-id"]) - arrays["w"]
    return {**arrays, "w": arrays["w"] + np.float32(config["lr"]) * gap}, {"loss": 1.0, "reach": 3}


APP = client_app(train=train)


def play(app=APP, behave=lambda *_: "answer", lie=None, rounds=4, names=NAMES, cohort=3):
    grid = InProcessGrid(app, lambda _t: list(names), behave)
    grid.lie = lie or grid.lie
    flower = FlowerStrategy(
        OptimalSampling(cohort=cohort),
        local=Local(learning_rate=0.5),
        evaluate_every=0,
        waiting=Waiting(clock=FakeClock()),
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=10.0)
    return flower, to_numpy(result.arrays)["w"], grid


def test_whoever_is_not_admitted_uploads_nothing(monkeypatch):
    sizes, call = {"train": [], "query.upload": []}, InProcessGrid._call

    def noted(grid, name, message):
        reply = call(grid, name, message)
        if reply.has_content():
            sizes.setdefault(message.metadata.message_type, []).append(len(reply.content.array_records))
        return reply

    monkeypatch.setattr(InProcessGrid, "_call", noted)
    flower, _, _ = play()
    uploads = sum(len(record.uploads) for record in flower.records)
    assert sizes["train"] == [0] * 32
    assert sizes["query.upload"] == [1] * uploads
    assert 4 <= uploads < 24
    assert all(record.arrived == record.uploads for record in flower.records)
    np.testing.assert_array_equal(flower.history.records["local_steps"], 24.0)


def test_a_kept_update_is_gone_once_it_is_sent():
    _, _, grid = play(names=["1"], cohort=1)
    assert not any(name.startswith(KEPT) for name in grid.contexts[grid.node("1")].state)


def test_an_upload_that_fails_is_lost_and_no_more():
    def behave(name, _t, message):
        return "raise" if (name, message.metadata.message_type) == ("8", "query.upload") else "answer"

    flower, weight, _ = play(behave=behave, cohort=8)
    assert all(record.uploads == tuple(f"id:{name}" for name in NAMES) for record in flower.records)
    assert all(record.arrived == record.uploads[:-1] for record in flower.records)
    assert np.isfinite(weight).all()


def test_a_node_that_has_started_again_has_nothing_to_upload(caplog):
    def behave(name, _t, message):
        if message.metadata.message_type == "query.upload" and name == "1":
            grid_of[0].contexts.clear()
        return "answer"

    grid_of = []
    grid = InProcessGrid(APP, lambda _t: ["1", "2"], behave)
    grid_of.append(grid)
    flower = FlowerStrategy(OptimalSampling(cohort=2), evaluate_every=0, waiting=Waiting(clock=FakeClock()))
    flower.start(grid, to_record(MODEL), num_rounds=1, timeout=10.0)
    assert flower.records[0].uploads == ("id:1", "id:2")
    assert flower.records[0].arrived == ()
    assert "no update of round 1 is kept here" in caplog.text


LIES = {
    "another length": lambda content: RecordDict({"arrays": to_record({**MODEL, "w": np.full(2, 9.0, np.float32)})}),
    "nothing": lambda _content: RecordDict(),
    "not finite": lambda content: RecordDict({"arrays": to_record({**MODEL, "w": np.full(2, np.nan, np.float32)})}),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_upload_is_checked_like_any_reply(lie, caplog):
    def behave(name, _t, message):
        return "lie" if (name, message.metadata.message_type) == ("8", "query.upload") else "answer"

    flower, _, _ = play(behave=behave, lie=LIES[lie], cohort=8, rounds=1)
    assert flower.records[0].arrived == tuple(f"id:{name}" for name in NAMES[:-1])
    assert "the reply of id:8 is dropped" in caplog.text


@pytest.mark.parametrize("norm", [float("nan"), -1.0, 1e30, [1.0]])
def test_a_length_that_cannot_be_is_dropped(norm, caplog):
    def behave(name, _t, message):
        return "lie" if (name, message.metadata.message_type) == ("8", "train") else "answer"

    def lie(_content):
        return RecordDict({"metrics": MetricRecord({"turnout.norm": norm, "turnout.round": 1})})

    flower, _, _ = play(behave=behave, lie=lie, cohort=8, rounds=1)
    assert flower.records[0].uploads == tuple(f"id:{name}" for name in NAMES[:-1])
    assert "the reply of id:8 is dropped" in caplog.text


def test_an_app_of_ones_own_uploads_at_once():
    app = ClientApp()

    @app.train()
    def own(message, context):
        trained, _ = train(to_numpy(message.content["arrays"]), message.content["config"], context)
        return Message(RecordDict({"arrays": to_record(trained)}), reply_to=message)

    grid = InProcessGrid(app, lambda _t: ["1", "2"])
    flower = FlowerStrategy(
        OptimalSampling(cohort=2),
        members=Members(identity="node"),
        evaluate_every=0,
        waiting=Waiting(clock=FakeClock()),
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=1, timeout=10.0)
    assert len(flower.records[0].arrived) == 2
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], 1.5)
    assert {kind for _, kind, _ in grid.seen} == {"train"}
