import logging
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import InProcessGrid, grouped

from turnout import read_log
from turnout.flower import Files, FlowerStrategy, Limits, Waiting, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, CAFed, FedAvg, FedAWE

MODEL = {"w": np.zeros((2, 2), np.float32), "seen": np.array(5)}


def pull(name):
    """Where a client's data draw the model: its number everywhere."""
    return float(name)


def train(arrays, config, context):
    """One step of length `lr` towards the client's own number."""
    gap = pull(context.node_config["client-id"]) - arrays["w"]
    metrics = {"loss": float(np.mean(gap**2)), "reach": 1, "num-examples": 4}
    return {**arrays, "w": arrays["w"] + np.float32(config["lr"]) * gap}, metrics


def loss(arrays, _config, context):
    return np.mean((pull(context.node_config["client-id"]) - arrays["w"]) ** 2)


def evaluate(arrays, _config, context):
    return {"mean": float(arrays["w"].mean()), "name": pull(context.node_config["client-id"])}


def size(context):
    return int(pull(context.node_config["client-id"]))


APP = client_app(train=train, loss=loss, evaluate=evaluate, size=size)


def run(
    strategy=None, *, names=("1", "2", "3"), rounds=4, behave=None, app=APP, lie=None, listed=None, keys=None, **options
):
    """A run on the in-process grid; returns the strategy, the final weight and the grid."""
    grid = InProcessGrid(app, listed or (lambda _t: list(names)), keys=keys or {})
    grid.behave = behave or grid.behave
    grid.lie = lie or grid.lie
    settings = {"local": Local(learning_rate=0.5), "poll": 0.01, "evaluate_every": 0, "greeting": 0.05} | options
    flower = FlowerStrategy(strategy or FedAvg(), **grouped(**settings))
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=0.05)
    arrays = to_numpy(result.arrays)
    assert np.isfinite(arrays["w"]).all()
    assert arrays["seen"] == 5
    return flower, arrays["w"], grid


def on_train(manners):
    """Behave so in training, well otherwise."""
    return lambda name, _t, message: (
        manners.get(name, "answer") if message.metadata.message_type == "train" else "answer"
    )


def test_all_there():
    flower, weight, _ = run()
    np.testing.assert_allclose(weight, 2.0 * (1 - 0.5**4))
    assert flower.records[0].arrived == ("id:1", "id:2", "id:3")


def test_the_silent_late_raising_and_unreachable_count_against_nobody_else():
    manners = {"2": "silent", "3": "raise", "4": "unreachable", "5": "late"}
    flower, weight, _ = run(names="12345", behave=on_train(manners))
    np.testing.assert_allclose(weight, 1 - 0.5**4)
    record = flower.records[-1]
    assert record.asked == ("id:1", "id:2", "id:3", "id:4", "id:5")
    assert record.arrived == ("id:1",)
    # The raising client was there; of the others nothing was heard.
    assert record.available == ("id:1", "id:3")
    np.testing.assert_array_equal(flower._driver.state.facts.on[:5], [4, 0, 4, 0, 0])


def test_a_slow_reply_within_the_time_counts():
    flower, _, _ = run(rounds=1, behave=on_train({"2": "slow"}))
    assert flower.records[0].arrived == ("id:1", "id:2", "id:3")


def test_two_replies_count_once():
    _, weight, _ = run(behave=on_train({"2": "twice"}))
    np.testing.assert_allclose(weight, 2.0 * (1 - 0.5**4))


def replaced(content, **arrays):
    found = {**to_numpy(content["arrays"]), **arrays}
    return RecordDict({**content, "arrays": to_record(found)})


LIES = {
    "nan": lambda content: replaced(content, w=np.full((2, 2), np.nan, np.float32)),
    "huge": lambda content: replaced(content, w=np.full((2, 2), 3e38, np.float32)),
    "shape": lambda content: replaced(content, w=np.zeros(4, np.float32)),
    "dtype": lambda content: replaced(content, w=np.zeros((2, 2), int)),
    "strange": lambda content: replaced(content, other=np.zeros(1)),
    "long": lambda content: replaced(content, w=np.full((2, 2), 100.0, np.float32)),
    "bomb": lambda content: replaced(content, w=np.zeros((1000, 1000), np.float32)),
    "bytes": lambda content: RecordDict(
        {"arrays": ArrayRecord({"w": Array("float32", (2, 2), "numpy.ndarray", b"x")})}
    ),
    "empty": lambda _content: RecordDict(),
    "round": lambda content: RecordDict({**content, "metrics": MetricRecord({"turnout.round": 99})}),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_dropped_with_a_reason(lie, caplog):
    flower, weight, _ = run(behave=on_train({"3": "lie"}), lie=LIES[lie], limits=Limits(norm=50.0))
    np.testing.assert_allclose(weight, 1.5 * (1 - 0.5**4))
    assert caplog.text.count("the reply of id:3 is dropped") == 4
    assert flower.records[0].available == ("id:1", "id:2", "id:3")


def test_metrics_of_no_use_are_told_once_and_all_others_are_passed_on(caplog):
    """An app in another style: float counts, a loss that is not finite, a list, names that are ours, float64 arrays."""
    app = ClientApp()

    @app.query("hello")
    def hello(message, context):
        identity = ConfigRecord({"client-id": context.node_config["client-id"]})
        return Message(RecordDict({"identity": identity}), reply_to=message)

    @app.train()
    def own(message, context):
        trained, _ = train(to_numpy(message.content["arrays"]), message.content["config"], context)
        metrics = {"train_loss": float("nan"), "num-examples": 3.0, "round": 77, "by class": [0.5, 0.25], "reach": -1.0}
        record = MetricRecord(metrics | {"accuracy": pull(context.node_config["client-id"])})
        doubles = to_record({**trained, "w": trained["w"].astype(float)})
        return Message(RecordDict({"arrays": doubles, "metrics": record}), reply_to=message)

    grid = InProcessGrid(app, lambda _t: ["1", "2", "3"])
    flower = FlowerStrategy(
        FedAvg(), local=Local(learning_rate=0.5), waiting=Waiting(poll=0.01, greeting=0.05), evaluate_every=0
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=4, timeout=0.05)
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], 2.0 * (1 - 0.5**4))
    assert [caplog.text.count(f"'{name}' is") for name in ("loss", "reach", "num-examples")] == [1, 1, 0]
    assert "the update counts" in caplog.text
    metrics = result.train_metrics_clientapp[4]
    assert (metrics["accuracy"], metrics["round"], metrics["num-examples"]) == (2.0, 77.0, 3.0)


def test_rounds_with_nobody_pass():
    flower, weight, _ = run(listed=lambda t: ["1", "2"] if t in (0, 2) else [])
    np.testing.assert_allclose(weight, 0.75 + 0.375)
    assert [len(record.arrived) for record in flower.records] == [2, 0, 2, 0]


def test_late_clients_join_and_clients_that_leave_keep_their_place():
    flower, _, _ = run(MIFA(), listed=lambda t: ["1", "2"] if t < 2 else ["9", "1"])
    assert flower._driver.directory.names == ("id:1", "id:2", "id:9")
    assert [record.arrived for record in flower.records][1:3] == [("id:1", "id:2"), ("id:1", "id:9")]


def test_a_restarted_node_is_the_same_client_though_the_old_one_is_still_listed():
    """Client 2 is killed in turn 1 and back at another node in turn 2; the link lists its old node until turn 4."""
    ghosts = {1: ["1", "2", "3"], 2: ["1", "2", "3", "2 again"], 3: ["1", "2", "3", "2 again"]}

    def behave(name, t, _message):
        return "silent" if name == "2" and t >= 1 else "answer"

    grid = InProcessGrid(APP, lambda t: ghosts.get(t, ["1", "2 again", "3"] if t else ["1", "2", "3"]), behave)
    flower = FlowerStrategy(FedAvg(), waiting=Waiting(poll=0.01), evaluate_every=0)
    flower.start(grid, to_record(MODEL), num_rounds=5, timeout=0.05)
    assert flower._driver.directory.names == ("id:1", "id:2", "id:3")
    assert [len(record.arrived) for record in flower.records] == [3, 2, 3, 3, 3]
    assert sum(kind == "query.hello" for _, kind, _ in grid.seen) == 4


def test_names_by_key_need_no_greeting():
    flower, _, grid = run(identity="key", keys={"1": b"one", "2": b"two", "3": b"three"})
    assert all(name.startswith("key:") for name in flower._driver.directory.names)
    assert {kind for _, kind, _ in grid.seen} == {"train"}


def test_an_app_of_ones_own_needs_no_change():
    app = ClientApp()

    @app.train()
    def own(message, context):
        from flwr.app import Message

        arrays = to_numpy(message.content["arrays"])
        trained, _ = train(arrays, message.content["config"], context)
        metrics = MetricRecord({"train_loss": 0.5, "num-examples": 3})
        return Message(RecordDict({"arrays": to_record(trained), "metrics": metrics}), reply_to=message)

    _, weight, _ = run(app=app, identity="node", local=None, rounds=1)
    np.testing.assert_allclose(weight, 2.0)
    flower, weight, _ = run(app=app, rounds=1, local=None)  # without a name, but there
    np.testing.assert_allclose(weight, 2.0)
    assert all(name.startswith("node:") for name in flower.records[0].arrived)


def test_without_local_the_rate_is_that_of_the_config():
    grid = InProcessGrid(APP, lambda _t: ["1"])
    flower = FlowerStrategy(FedAvg(), waiting=Waiting(poll=0.01))
    settings = ConfigRecord({"lr": 0.25})
    result = flower.start(grid, to_record(MODEL), num_rounds=1, timeout=0.05, train_config=settings)
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], 0.25)
    assert dict(settings) == {"lr": 0.25}
    with pytest.raises(ValueError, match="'lr' in the training config is 'fast'"):
        FlowerStrategy(FedAvg()).start(grid, to_record(MODEL), train_config=ConfigRecord({"lr": "fast"}))


@pytest.mark.parametrize(
    ("target", "mean"),
    [("uniform", 2.0), ("size", 14 / 6), ({"1": 3.0, "2": 1.0, "3": 1.0}, 8 / 5), (lambda name: 4 - int(name), 10 / 6)],
)
def test_targets(target, mean):
    _, weight, _ = run(target=target, rounds=1, local=Local(learning_rate=1.0))
    np.testing.assert_allclose(weight, mean, rtol=1e-6)


def test_a_mapping_names_the_fleet(caplog):
    flower, weight, _ = run(target={"1": 1.0, "8": 1.0}, rounds=2)
    assert flower._driver.directory.names == ("id:1", "id:8")
    assert "id:2 is turned away" in caplog.text
    np.testing.assert_allclose(weight, 0.75)


def test_probes_decide_who_is_there():
    def behave(name, _t, message):
        kind = message.metadata.message_type
        return "silent" if (name, kind) in {("2", "query.probe"), ("3", "train")} else "answer"

    flower, _, _ = run(CAFed(), behave=behave, probe=0.05)
    assert flower.records[-1].asked == ("id:1", "id:3")
    np.testing.assert_array_equal(flower._driver.state.facts.on[:3], [4, 0, 4])
    np.testing.assert_array_equal(flower._driver.state.facts.arrived[:3], [4, 0, 0])


def test_evaluation_is_weighted_by_the_target():
    grid = InProcessGrid(APP, lambda _t: ["1", "2", "3"])
    flower = FlowerStrategy(
        FedAvg(), target={"1": 3.0, "2": 1.0, "3": 1.0}, waiting=Waiting(poll=0.01), evaluate_every=2
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=4, timeout=0.05)
    assert set(result.evaluate_metrics_clientapp) == {0, 2, 4}
    assert result.evaluate_metrics_clientapp[2]["name"] == pytest.approx(8 / 5)
    assert result.train_metrics_clientapp[1]["arrived"] == 3


def test_a_server_that_would_change_the_model_of_a_strategy_is_refused():
    with pytest.raises(ValueError, match="FedAWE sets the model itself, so the server's radius must be left out"):
        FlowerStrategy(FedAWE(), server=ServerSettings(radius=1.0))


def test_a_server_that_is_started_again_goes_on(tmp_path):
    def play(path, *rounds):
        rated = {}
        for count in rounds:
            grid = InProcessGrid(APP, lambda _t: ["1", "2", "3"], on_train({"3": "silent"}))
            flower = FlowerStrategy(
                FedAWE(),
                local=Local(learning_rate=0.5),
                waiting=Waiting(poll=0.01),
                files=Files(checkpoint=path),
                evaluate_every=0,
            )
            rated.clear()
            result = flower.start(
                grid, to_record(MODEL), num_rounds=count, timeout=0.05, evaluate_fn=lambda t, _a: rated.setdefault(t)
            )
        return to_numpy(result.arrays)["w"], result, rated

    whole, _, _ = play(tmp_path / "whole.npz", 5)
    cut, result, rated = play(tmp_path / "cut.npz", 2, 5)
    np.testing.assert_array_equal(whole, cut)
    assert set(result.train_metrics_clientapp) == {3, 4, 5}
    assert list(rated) == [2, 3, 4, 5]
    again, result, _ = play(tmp_path / "cut.npz", 5)
    np.testing.assert_array_equal(whole, again)
    assert not result.train_metrics_clientapp


def test_the_participation_log_tells_of_the_run(tmp_path):
    manners = {"2": "raise"}
    run(behave=on_train(manners), listed=lambda t: ["1", "2"] if t % 2 else ["1"], participation=tmp_path / "log.csv")
    found = read_log(tmp_path / "log.csv")
    assert (found.num_slots, found.names.tolist()) == (4, ["id:1", "id:2"])
    np.testing.assert_array_equal(found.matrix(), [[True] * 4, [False, True, False, True]])
    np.testing.assert_array_equal(found.arrived, [1.0, 0.0])


def test_what_cannot_be_is_said_at_once():
    with pytest.raises(ValueError, match="evaluate_every must be"):
        FlowerStrategy(FedAvg(), evaluate_every=-1)


RAW = st.builds(
    Array,
    st.sampled_from(["float32", "int8", "?"]),
    st.tuples(st.integers(-1, 3), st.integers(0, 3)),
    st.sampled_from(["numpy.ndarray", "other"]),
    st.binary(max_size=40),
)
NUMPY = st.sampled_from(
    [np.full((2, 2), value, np.float32) for value in (np.nan, np.inf, 3e38, -1e20)] + [np.zeros(3), np.array(["a"])]
).map(Array)
METRIC = st.one_of(st.integers(-(2**62), 2**62), st.floats(), st.lists(st.integers(0, 3), max_size=2))
NAMES = st.sampled_from(["w", "seen", "other", ""])
RECORDS = st.one_of(
    st.dictionaries(NAMES, st.one_of(RAW, NUMPY), max_size=3).map(ArrayRecord),
    st.dictionaries(st.sampled_from(["loss", "reach", "num-examples", "turnout.round"]), METRIC, max_size=4).map(
        MetricRecord
    ),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2).map(ConfigRecord),
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["arrays", "metrics", "identity", "x"]), RECORDS, max_size=3))
def test_whatever_is_sent_neither_raises_nor_moves_the_model(records):
    logging.getLogger("turnout.flower").setLevel(logging.ERROR)
    _, weight, _ = run(rounds=1, behave=on_train({"3": "lie"}), lie=lambda _content: RecordDict(records))
    logging.getLogger("turnout.flower").setLevel(logging.NOTSET)
    np.testing.assert_allclose(weight, 0.75)


def test_a_client_does_not_wait_for_the_libraries_of_the_server():
    program = "import sys, turnout.flower.client; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"jax", "equinox", "optax", "scipy", "polars"} & set(done.stdout.split())
