"""Replies are checked as they come, and let go: a thousand models are never in memory at once."""

import weakref

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid

from turnout.flower import FlowerStrategy, Waiting, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg, OptimalSampling

MODEL = {"w": np.zeros(2, np.float32)}
NAMES = [str(number) for number in range(200)]


def train(arrays, config, context):
    gap = float(context.node_config["client-id"]) - arrays["w"]
    return {"w": arrays["w"] + np.float32(config["lr"]) * gap}, {"loss": 1.0, "accuracy": 0.5}


class LazyGrid(InProcessGrid):
    """Clients that work when their reply is fetched; counts the replies with a model that are alive at once."""

    def __post_init__(self):
        super().__post_init__()
        self.waiting, self.alive, self.most = {}, 0, 0

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{next(self.numbers)}"
            numbers.append(message.metadata.message_id)
            self.waiting[numbers[-1]] = message
        return numbers

    def pull_messages(self, message_ids):
        for number in sorted(message_ids):
            if number in self.waiting:
                self._deliver(self.waiting.pop(number))
        replies = super().pull_messages(message_ids)
        for reply in replies:
            if reply.has_content() and reply.content.array_records:
                self.alive += 1
                self.most = max(self.most, self.alive)
                weakref.finalize(reply.content, self._forget)
        return replies

    def _forget(self):
        self.alive -= 1


def play(kind=FlowerStrategy, strategy=None):
    grid = LazyGrid(client_app(train=train), lambda _t: NAMES)
    flower = kind(
        strategy or FedAvg(), local=Local(learning_rate=0.5), evaluate_every=0, waiting=Waiting(clock=FakeClock())
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=2, timeout=10.0)
    return grid, flower, result


def test_only_a_few_replies_are_held_at_once():
    grid, flower, result = play()
    assert 1 <= grid.most <= 66  # those of one call, and the one that is being checked
    assert [len(record.arrived) for record in flower.records] == [200, 200]
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], 99.5 * 0.75, rtol=1e-5)
    assert result.train_metrics_clientapp[2]["accuracy"] == pytest.approx(0.5)


def test_uploads_that_were_asked_for_are_let_go_too():
    grid, flower, _ = play(strategy=OptimalSampling(cohort=150))
    assert sum(len(record.arrived) for record in flower.records) > 200
    assert 1 <= grid.most <= 66  # those of one call, and the one that is being checked


class Counting(FlowerStrategy):
    """A subclass that looks at the replies itself."""

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        self.counted = [len(replies), sum(len(reply.content.array_records) for reply in replies)]
        return super().aggregate_train(server_round, replies)


def test_a_subclass_that_aggregates_gets_all_replies():
    grid, flower, result = play(Counting)
    assert flower.counted == [200, 200]
    assert grid.most >= 200
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], 99.5 * 0.75, rtol=1e-5)
