import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from inprocess import InProcessGrid

from turnout.flower import FlowerStrategy, Waiting, client_app, greet
from turnout.flower.wire.messages import PROBE, ROUND, to_record
from turnout.strategies import FedAvg

MODEL = {"w": np.zeros(2, np.float32)}


def test_a_client_without_its_data_can_still_say_who_it_is():
    """Only its work fails: it is available, its uploads are lost, and no round waits for another greeting."""

    def missing(*_):
        raise FileNotFoundError("/data is not mounted")

    grid = InProcessGrid(client_app(train=missing, size=missing), lambda _t: ["1"])
    flower = FlowerStrategy(FedAvg(), waiting=Waiting(poll=0.01), evaluate_every=0)
    flower.start(grid, to_record(MODEL), num_rounds=2, timeout=0.05)
    assert [(record.available, record.arrived) for record in flower.records] == [(("id:1",), ())] * 2
    assert [kind for _, kind, _ in grid.seen] == ["query.hello", "train", "train"]


def test_where_sizes_matter_a_client_that_cannot_tell_its_own_does_not_join(caplog):
    def size(context):
        return {"1": 0, "2": 7}[context.node_config["client-id"]]

    grid = InProcessGrid(client_app(train=lambda arrays, *_: (arrays, {}), size=size), lambda _t: ["1", "2", "3"])
    flower = FlowerStrategy(FedAvg(), target="size", waiting=Waiting(poll=0.01), evaluate_every=0)
    flower.start(grid, to_record(MODEL), num_rounds=1, timeout=0.05)
    assert flower.records[0].available == ("id:2",)
    assert "cannot join: 'num-examples' is 0" in caplog.text
    assert "cannot join: KeyError: '3'" in caplog.text


@pytest.mark.parametrize(
    ("metrics", "loss"),
    [
        ({"loss": 1.0, "other_loss": 2.0}, 1.0),
        ({"eval_loss": 3.0, "accuracy": 0.5}, 3.0),
        ({"test_logloss": 4.0, "f1": 0.5}, 4.0),
        ({"head_loss": 5.0, "tail_loss": 6.0}, None),
        ({"accuracy": 0.5}, None),
    ],
)
def test_a_probe_takes_the_loss_that_evaluation_reports(metrics, loss):
    InProcessGrid(None, lambda _t: [])  # messages need the identity that a grid gives
    app = greet(ClientApp())
    app.evaluate()(lambda message, _context: Message(RecordDict({"own": MetricRecord(metrics)}), reply_to=message))
    question = Message(RecordDict({"arrays": to_record(MODEL), "config": ConfigRecord({ROUND: 1})}), 1, PROBE)
    context = Context(7, 1, {}, RecordDict(), {})
    if loss is None:
        with pytest.raises(ValueError, match=r"evaluation reports only .* report a 'loss' there"):
            app(question, context)
    else:
        assert app(question, context).content["metrics"]["loss"] == loss
