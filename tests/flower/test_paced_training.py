"""A server that does not wait: silence, kills, lies, the end, and what is written."""

import urllib.request
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("flwr")

import polars as pl
from flwr.app import ConfigRecord
from inprocess import FakeClock, InProcessGrid, grouped

from turnout.flower import FlowerStrategy, client_app
from turnout.flower.run.live import MetricsPage
from turnout.flower.server.speeds import Speeds
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.paces import Buffered, Clocked, Rounds
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg, LastWord, OptimalSampling
from turnout.world import durations

MODEL = {"w": np.zeros(2, np.float32)}
SPEEDS = {"1": 2.5, "2": 3.5, "3": 5.5, "4": 20.5}


class Diary:
    """What each client has done: how often it was asked for which round, by name."""

    def __init__(self):
        self.asked = Counter()

    def train(self, arrays, config, context):
        name = context.node_config["client-id"]
        self.asked[name, config["server-round"]] += 1
        gap = float(name) - arrays["w"]
        return {"w": arrays["w"] + np.float32(config["lr"]) * gap}, {"loss": 1.0, "num-examples": 4}


def fleet(clock, diary=None, behave=lambda *_: "answer", listed=lambda _t: list(SPEEDS), kind=InProcessGrid):
    diary = Diary() if diary is None else diary

    def takes(name, _turn, message):
        return SPEEDS[name.split()[0]] if message.metadata.message_type == "train" else 0.0

    return kind(client_app(train=diary.train), listed, behave, clock=clock, takes=takes)


def server(clock, strategy=None, pace=None, **options):
    options = {"evaluate_every": 0, "guard": None, "clock": clock, **options}
    strategy, pace = strategy or FedAvg(), pace or Buffered(size=2, concurrency=4)
    return FlowerStrategy(strategy, pace=pace, local=Local(learning_rate=0.25), **grouped(**options))


def train(flower, grid, steps=10, timeout=60.0, **options):
    return to_numpy(flower.start(grid, to_record(MODEL), num_rounds=steps, timeout=timeout, **options).arrays)["w"]


def silent_client(name, _t, message):
    return "silent" if name == "4" and message.metadata.message_type == "train" else "answer"


def test_nobody_waits_for_a_dead_client():
    clock, calm = FakeClock(), FakeClock()
    train(server(calm), fleet(calm), 20)
    flower = server(clock)
    train(flower, fleet(clock, behave=silent_client), 20)
    assert clock.time <= calm.time + 5.0
    assert all("id:4" not in record.arrived for record in flower.records)


def test_a_client_is_given_up_by_its_own_speed():
    """Client 1 answers in 2.5 seconds, and then never: its time-out is nine, not the 600 of all."""
    clock = FakeClock()

    def behave(name, _t, message):
        works = message.metadata.message_type == "train"
        return "silent" if name == "1" and clock.time > 60 and works else "answer"

    flower = server(clock)
    train(flower, fleet(clock, behave=behave), 50, timeout=600.0)
    silent = [one for one in flower._flow.arrivals if one.outcome == "silent"]
    assert {one.client for one in silent} == {"id:1"}
    assert all(8.5 <= one.seconds <= 11.0 for one in silent)  # answers are looked for every second
    assert flower._flow.counts["silent"] == len(silent)


def test_speeds_have_time_outs_and_medians_of_their_own():
    speeds = Speeds()
    assert speeds.limit("a", 600.0) == 600.0
    for seconds in (10.0, 11.0, 12.0, 10.0, 11.0, 9.0, 10.0):
        speeds.add("a", seconds)
    assert speeds.limit("a", 600.0) == pytest.approx(30.0, abs=1.0)
    assert speeds.limit("a", 20.0) == 20.0
    median, low, high = speeds.median("a")
    assert (median, low, high) == (10.0, 9.0, 12.0)
    again = Speeds()
    again.restore(speeds.state())
    assert again.median("a") == speeds.median("a")


class Killed(Exception):
    """The server's end."""


def killing(at):
    def evaluate(t, _arrays):
        if t == at:
            raise Killed

    return evaluate


@pytest.mark.parametrize("strategy", [FedAvg(), LastWord()], ids=lambda one: type(one).__name__)
def test_a_killed_server_goes_on_with_what_was_under_way(tmp_path, strategy):
    """Killed after two steps, it ends with the model of one that was never killed, and nothing counts twice."""
    clock, diary = FakeClock(), Diary()
    calm = server(clock, strategy)
    expected = train(calm, fleet(clock, diary), 8)
    clock, own = FakeClock(), Diary()
    grid = fleet(clock, own)
    files = {"checkpoint": tmp_path / "checkpoint.npz"}
    first = server(clock, strategy, **files)
    with pytest.raises(Killed):
        train(first, grid, 8, evaluate_fn=killing(2))
    second = server(clock, strategy, **files)
    found = train(second, grid, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert own.asked == diary.asked
    assert second._flow.table() == calm._flow.table()
    used = [(one.client, one.tick) for one in second._flow.arrivals if one.outcome == "used"]
    assert len(used) == len(set(used))


def test_orders_of_a_former_run_of_flower_are_lost_and_counted(tmp_path, caplog):
    from flwr.supercore.task_identity import TaskIdentity

    clock = FakeClock()
    grid = fleet(clock)
    files = {"checkpoint": tmp_path / "checkpoint.npz"}
    with pytest.raises(Killed):
        train(server(clock, **files), grid, 8, evaluate_fn=killing(2))
    second = server(clock, **files)
    grid.timed.clear()
    grid.ready.clear()
    TaskIdentity.run_id = 8
    try:
        with caplog.at_level("INFO", "flwr"):
            train(second, grid, 8)
    finally:
        TaskIdentity.run_id = 7
    assert "orders of a former run are lost" in caplog.text
    assert sum(one.outcome == "left" for one in second._flow.arrivals) >= 1
    assert len(second.history.records["arrived"][0]) == 8


def test_no_more_models_than_orders_and_a_buffer():
    clock, most = FakeClock(), []
    flower = server(clock, pace=Buffered(size=2, concurrency=3))
    train(flower, fleet(clock), 15, evaluate_fn=lambda *_: most.append(flower._flow.models) if flower._flow else None)
    assert 0 < max(most) <= 3 + 2


@pytest.mark.parametrize("at_end", ["give up", "wait"])
def test_the_end_is_clean_and_said(at_end, caplog):
    clock = FakeClock()
    flower = server(clock, at_end=at_end)
    with caplog.at_level("INFO", "flwr"):
        train(flower, fleet(clock), 4)
    assert "The end: " in caplog.text
    assert (len(flower._flow.working) == 0) == (at_end == "wait")


def test_a_step_without_anything_does_not_move_the_model():
    clock, models = FakeClock(), []
    flower = server(clock, LastWord(), Clocked(every=1))
    train(flower, fleet(clock), 12, evaluate_fn=lambda _t, arrays: models.append(to_numpy(arrays)["w"]))
    came = [len(record.arrived) > 0 for record in flower.records]
    assert 0 < sum(came) < 12
    for moved, before, after in zip(came, models[:-1], models[1:], strict=True):
        assert moved or np.array_equal(before, after)


def test_answers_are_written_and_played_again(tmp_path):
    clock = FakeClock()
    flower = server(clock, record=tmp_path / "run")
    train(flower, fleet(clock), 12)
    table = pl.read_parquet(tmp_path / "run" / "arrivals.parquet")
    assert table.columns == ["place", "client", "tick", "seconds", "version", "step", "age", "outcome", "weight"]
    used = table.filter(pl.col("outcome") == "used")
    assert len(used) == sum(len(record.arrived) for record in flower.records)
    law = durations.recorded(4, tmp_path / "run")
    assert law.ticks[:, 0].tolist() == [2, 3, 5, 20]
    clients = pl.read_parquet(tmp_path / "run" / "clients.parquet")
    seconds = dict(clients.select("client", "seconds").iter_rows()) if "client" in clients.columns else None
    assert seconds is None or len(seconds) == 4
    with pytest.raises(ValueError, match="client 4 has no answer"):
        durations.recorded(5, tmp_path / "run")
    with pytest.raises(ValueError, match="is no table of arrivals"):
        durations.recorded(4, tmp_path / "nothing")


def test_numbers_for_prometheus_are_served():
    page = MetricsPage("127.0.0.1:0")
    page.numbers = {"step": 3, "at_work": 2.0}
    with page.served(), urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics") as answer:
        text = answer.read().decode()
    assert "turnout_step 3\n" in text
    assert "# TYPE turnout_at_work gauge" in text
    with pytest.raises(ValueError, match="metrics_address must be like"):
        MetricsPage("9100")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quorum": 0.5}, "part of a pace"),
        ({"fraction_train": 0.5}, "give the pace a concurrency"),
        ({"strategy": OptimalSampling(cohort=2)}, "needs rounds that wait for all"),
        ({"pace": Buffered(size=5, concurrency=2)}, "below size"),
    ],
)
def test_what_does_not_fit_is_refused(options, words):
    strategy = options.pop("strategy", FedAvg())
    with pytest.raises(ValueError, match=words):
        FlowerStrategy(strategy, **{"pace": Rounds(), **options})


def test_the_first_model_is_evaluated_without_waiting_for_the_dead():
    clock = FakeClock()
    app = client_app(train=Diary().train, evaluate=lambda *_: {"loss": 1.0, "num-examples": 4})
    grid = InProcessGrid(app, lambda _t: list(SPEEDS), clock=clock, takes=lambda *_: 2.5)
    grid.behave = lambda name, _t, message: "silent" if name == "4" else "answer"
    flower = server(clock, evaluate_every=5, greeting=1.0)
    result = flower.start(grid, to_record(MODEL), num_rounds=10, timeout=600.0)
    assert clock.time < 300
    assert {0, 5} <= set(result.evaluate_metrics_clientapp)


def test_rounds_of_others_are_refused():
    class Own(FlowerStrategy):
        def aggregate_train(self, server_round, replies):
            return super().aggregate_train(server_round, replies)

    clock = FakeClock()
    with pytest.raises(TypeError, match="has its own aggregate_train"):
        Own(FedAvg(), pace=Buffered(size=1)).start(fleet(clock), to_record(MODEL))
    with pytest.raises(RuntimeError, match="has no rounds to configure"):
        server(clock).configure_train(1, to_record(MODEL), ConfigRecord(), fleet(clock))
