"""Nodes that never answer and a link that fails cost the others nothing, or little."""

import logging

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid

from turnout.flower import FlowerStrategy, Waiting, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.flower.wire.retries import PollingGrid, is_transport_failure
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg

MODEL = {"w": np.zeros(2, np.float32)}


def train(arrays, config, context):
    gap = float(context.node_config["client-id"]) - arrays["w"]
    return {"w": arrays["w"] + np.float32(config["lr"]) * gap}, {"loss": 1.0}


def play(grid, rounds=6, **waiting):
    """A run on a clock of its own; returns the strategy, the final weight and the seconds that have passed."""
    clock = FakeClock()
    flower = FlowerStrategy(
        FedAvg(), local=Local(learning_rate=0.5), evaluate_every=0, waiting=Waiting(clock=clock, **waiting)
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=100.0)
    return flower, to_numpy(result.arrays)["w"][0], clock.time


def grid_of(listed, behave=lambda *_: "answer", kind=InProcessGrid):
    return kind(client_app(train=train), listed, behave)


def dead(name, _t, _message):
    return "silent" if name == "dead" else "answer"


def hellos(grid, name):
    return sum(asked == name and kind == "query.hello" for asked, kind, _ in grid.seen)


def test_a_dead_node_costs_nothing_where_others_are_known():
    grid = grid_of(lambda t: ["1", "2"] if t == 0 else ["1", "2", "dead"], dead)
    flower, weight, seconds = play(grid)
    assert seconds == 0.0
    assert [len(record.arrived) for record in flower.records] == [2] * 6
    assert weight == pytest.approx(1.5 * (1 - 0.5**6))


def test_a_dead_node_in_the_first_round_costs_one_greeting():
    grid = grid_of(lambda _t: ["1", "2", "dead"], dead)
    flower, _, seconds = play(grid, greeting=30.0)
    assert seconds == pytest.approx(30.0, abs=1.5)
    assert [len(record.arrived) for record in flower.records] == [2] * 6
    assert hellos(grid, "dead") == 1


def test_a_silent_node_has_one_greeting_that_lies_at_the_link():
    def behave(name, _t, message):
        train = message.metadata.message_type == "train"
        return "silent" if name == "dead" or (name == "slow" and train) else "answer"

    grid = grid_of(lambda _t: ["slow", "dead"], behave)  # each round takes its 100 seconds
    _, _, seconds = play(grid, rounds=4, greeting=30.0)
    assert seconds == pytest.approx(4 * 100 + 30, abs=30)
    assert hellos(grid, "dead") == 1


def test_a_newcomer_greets_while_the_others_train():
    def behave(name, _t, message):
        return "late" if (name, message.metadata.message_type) == ("3", "query.hello") else "answer"

    grid = grid_of(lambda t: ["1"] if t == 0 else ["1", "3"], behave)
    flower, _, seconds = play(grid, rounds=4)
    assert seconds == 0.0
    assert [record.arrived for record in flower.records] == [("id:1",)] * 2 + [("id:1", "id:3")] * 2


class Broken(InProcessGrid):
    """A grid of which some calls fail, counted from 0 for each kind of call."""

    failing: dict = {}  # noqa: RUF012
    error = ConnectionError("link down")

    def __post_init__(self):
        super().__post_init__()
        self.calls = dict.fromkeys(("get_nodes", "push_messages", "pull_messages"), -1)

    def count(self, call):
        self.calls[call] += 1
        if self.calls[call] in self.failing.get(call, ()):
            raise self.error

    def get_nodes(self):
        self.count("get_nodes")
        return super().get_nodes()

    def push_messages(self, messages):
        self.count("push_messages")
        return super().push_messages(messages)

    def pull_messages(self, message_ids):
        self.count("pull_messages")
        return super().pull_messages(message_ids)


@pytest.mark.parametrize("call", ["get_nodes", "push_messages", "pull_messages"])
def test_a_link_that_fails_for_a_while_is_waited_for(call, caplog):
    grid = grid_of(lambda _t: ["1", "2"], kind=Broken)
    grid.failing = {call: range(2, 6)}
    flower, weight, seconds = play(grid, poll=2.0)
    assert [len(record.arrived) for record in flower.records] == [2] * 6
    assert weight == pytest.approx(1.5 * (1 - 0.5**6))
    assert 0 < seconds < 40
    assert "ConnectionError: link down" in caplog.text


def test_a_link_that_stays_down_lets_rounds_pass():
    grid = grid_of(lambda _t: ["1"], kind=Broken)
    grid.failing = {"get_nodes": range(1, 10**6)}
    flower, weight, seconds = play(grid, rounds=3, patience=50.0)
    assert [len(record.arrived) for record in flower.records] == [1, 0, 0]
    assert weight == pytest.approx(0.5)
    assert seconds == pytest.approx(2 * (50 + 100), abs=1.0)  # patience, and the time of a round with nobody


def test_clients_whose_orders_could_not_be_sent_are_not_taken_for_busy():
    grid = grid_of(lambda _t: ["1"], kind=Broken)
    grid.failing = {"push_messages": range(1, 8)}  # after the greeting
    flower, _, _ = play(grid, rounds=4, patience=20.0)
    assert [len(record.asked) for record in flower.records] == [1] * 4
    assert sum(len(record.arrived) for record in flower.records) >= 2
    assert not any(record.unknown for record in flower.records)


def test_what_is_wrong_with_the_call_itself_is_raised():
    grid = grid_of(lambda _t: ["1"], kind=Broken)
    grid.failing, grid.error = {"push_messages": range(10)}, TypeError("no such message")
    with pytest.raises(TypeError, match="no such message"):
        play(grid)


def test_a_message_that_was_sent_in_spite_of_an_error_is_waited_for(monkeypatch):
    """The link takes the messages and the answer is lost; sent again, it knows them already and gives no number."""
    grid = grid_of(lambda _t: ["1"])
    known, push = [], grid.push_messages

    def forgetful(messages):
        if known and messages[0] is known[-1]:
            return [None]
        known.append(messages[0])
        push(messages)
        raise ConnectionError("reply lost")

    monkeypatch.setattr(grid, "push_messages", forgetful)
    flower, _, _ = play(grid, rounds=2)
    assert [len(record.arrived) for record in flower.records] == [1, 1]


class Answer:
    def __init__(self, status):
        self.status_code = status


class HTTPStatusError(Exception):
    """As httpx has it."""

    def __init__(self, status):
        super().__init__(f"status {status}")
        self.response = Answer(status)


HTTPStatusError.__module__ = "httpx"


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (HTTPStatusError(503), True),
        (HTTPStatusError(429), True),
        (HTTPStatusError(403), False),
        (TimeoutError(), True),
        (ValueError("Invalid message"), False),
        (KeyError("x"), False),
    ],
)
def test_only_errors_that_may_pass_are_waited_for(error, passes):
    assert is_transport_failure(error) is passes


@pytest.mark.parametrize("wrong", [{"poll": 0.0}, {"patience": -1.0}])
def test_times_must_make_sense(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} of Waiting must be"):
        PollingGrid(grid_of(lambda _t: []), Waiting(**wrong))


def test_the_log_is_quiet_where_nothing_is_wrong(caplog):
    with caplog.at_level(logging.WARNING, "turnout.flower"):
        play(grid_of(lambda _t: ["1", "2"]), rounds=2)
    assert [record.getMessage() for record in caplog.records if "trust" not in record.getMessage()] == []
