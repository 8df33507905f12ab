"""A message lives from when it is sent, not from when it was written: on Flower it expires by its stamp."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid

from turnout.flower import FlowerStrategy, Waiting, client_app
from turnout.flower.wire.messages import to_record
from turnout.strategies import FedAvg

APP = client_app(train=lambda arrays, *_: (arrays, {"loss": 1.0}))


class SlowLink(InProcessGrid):
    """A link that is away for 40 seconds when the orders of the second round are sent."""

    away = None

    def push_messages(self, messages):
        if messages[0].metadata.group_id == "2" and messages[0].metadata.message_type == "train":
            self.away = self.clock.time if self.away is None else self.away
            if self.clock.time < self.away + 40:
                raise ConnectionError("link down")
        return super().push_messages(messages)


def play(kind, clock, make=FlowerStrategy):
    grid = kind(APP, lambda _t: ["1", "2"], clock=clock, takes=lambda *_: 5.0)
    flower = make(FedAvg(), evaluate_every=0, waiting=Waiting(clock=clock))
    flower.start(grid, to_record({"w": np.zeros(1)}), num_rounds=3, timeout=30.0)
    return [len(record.arrived) for record in flower.records]


def test_orders_that_waited_for_the_link_do_not_expire():
    assert play(SlowLink, FakeClock()) == [2, 2, 2]


def test_orders_that_were_written_early_do_not_expire():
    clock = FakeClock()

    class Slowly(FlowerStrategy):
        def configure_train(self, *arguments):
            written = super().configure_train(*arguments)
            clock.sleep(40.0)
            return written

    assert play(InProcessGrid, clock, Slowly) == [2, 2, 2]


def test_what_is_sent_late_by_its_stamp_expires_in_the_grid_of_these_tests():
    clock = FakeClock()
    grid = InProcessGrid(APP, lambda _t: ["1"], clock=clock, takes=lambda *_: 5.0)
    grid.get_nodes(), grid.get_node_ids()
    message = grid.create_message(_content(), "train", grid.node("1"), "1", ttl=30.0)
    clock.sleep(40.0)
    (reply,) = grid.pull_messages(grid.push_messages([message]))
    assert reply.error.code == 3


def _content():
    from flwr.app import RecordDict

    return RecordDict()
