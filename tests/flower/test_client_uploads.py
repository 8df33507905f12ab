"""Clients that send less than a model: what goes over the wire, and what the server makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common.serde import recorddict_to_proto
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import FakeClock, InProcessGrid
from test_client_memory import FEEDBACK, MODEL, STEP, by_feedback, losing, play, train

from turnout.files.archive import read_archive, write_archive
from turnout.flower import FlowerStrategy, Waiting, client_app
from turnout.flower.wire.client_metrics import Dropped
from turnout.flower.wire.compact import INDICES, LEVELS, SCALES, VALUES, check_parts, most_bytes
from turnout.flower.wire.layout import Layout, pack
from turnout.flower.wire.messages import COMPACT, parts_in, to_numpy, to_record
from turnout.flower.wire.replies import Reply, ReplyRules
from turnout.strategies import FedAvg, OptimalSampling
from turnout.uploads import Chain, Clip, EightBit, ErrorFeedback, Noise, TopK
from turnout.workbench import load


def test_training_in_place_is_seen():
    def in_place(arrays, _config, _context):
        arrays["w"] += STEP
        return arrays, {}

    _, weight, _ = play(client_app(train=in_place, uploads=EightBit()), rounds=1)
    np.testing.assert_allclose(weight, STEP, rtol=0.01)


def test_a_trained_model_that_does_not_fit_is_named(caplog):
    def bad(arrays, config, context):
        return ({"seen": arrays["seen"]}, {}) if context.node_config["client-id"] == "1" else ({"w": STEP[:2]}, {})

    flower, _, _ = play(client_app(train=bad, uploads=EightBit()), names=("1", "2"), rounds=1)
    assert flower.records[0].available == ("id:1", "id:2")
    assert flower.records[0].arrived == ()
    assert "array 'w' is missing in the trained model" in caplog.text
    assert "array 'w' of the trained model has shape (2,), not (4,)" in caplog.text


def test_a_fleet_may_be_mixed():
    """One client sends its model, one the largest entries, one signed bytes."""
    apps = {
        "1": client_app(train=train),
        "2": client_app(train=train, uploads=TopK(0.5)),
        "3": client_app(train=train, uploads=EightBit()),
    }

    def any_of_them(message, context):
        return apps[context.node_config["client-id"]](message, context)

    flower, weight, _ = play(any_of_them, names=tuple(apps), rounds=1)
    assert len(flower.records[0].arrived) == 3
    np.testing.assert_allclose(weight, (2 * STEP + [4, 3, 0, 0]) / 3, atol=0.02)


LIES = {
    "twice": {INDICES: np.array([1, 1], np.uint32), VALUES: np.ones(2, np.float32)},
    "outside": {INDICES: np.array([4], np.uint32), VALUES: np.ones(1, np.float32)},
    "bomb": {INDICES: np.arange(100_000, dtype=np.uint32), VALUES: np.ones(1, np.float32)},
    "strange": {"w": np.ones(4, np.float32)},
    "not finite": {VALUES: np.full(4, np.nan, np.float32)},
    "long": {VALUES: np.full(4, 1e20, np.float32)},
}


@pytest.mark.parametrize("lie", [*LIES, "pickle", "two records"])
def test_uploads_are_checked_like_any_reply(lie, caplog):
    def lying(content):
        if lie == "two records":
            return RecordDict({**content, "arrays": to_record(MODEL)})
        record = (
            to_record(LIES[lie]) if lie in LIES else ArrayRecord({VALUES: Array("object", (1,), "numpy.ndarray", b"x")})
        )
        return RecordDict({**content, COMPACT: record})

    def behave(name, _t, message):
        return "lie" if (name, message.metadata.message_type) == ("2", "train") else "answer"

    flower, weight, _ = play(
        client_app(train=train, uploads=TopK(1.0)), names=("1", "2"), behave=behave, lie=lying, rounds=1
    )
    assert flower.records[0].arrived == ("id:1",)
    assert "the reply of id:2 is dropped" in caplog.text
    np.testing.assert_allclose(weight, STEP)


WHOLE = pack(np.arange(4, dtype=np.uint32))
DATA = st.one_of(st.binary(max_size=200), st.integers(0, len(WHOLE)).map(lambda cut: WHOLE[:cut]))
RECORDS = st.dictionaries(
    st.one_of(st.sampled_from([INDICES, VALUES, LEVELS, SCALES]), st.text(max_size=3)),
    st.builds(Array, st.sampled_from(["float32", "x"]), st.just((4,)), st.sampled_from(["numpy.ndarray", "?"]), DATA),
)


@settings(max_examples=200, deadline=None)
@given(RECORDS)
def test_whatever_bytes_are_sent_nothing_raises(arrays):
    layout = Layout.of(MODEL)
    parts = parts_in(ArrayRecord(arrays), most_bytes(layout))
    if not isinstance(parts, Dropped):
        parts = check_parts(parts, {}, ReplyRules(layout, t=1))
    assert isinstance(parts, Reply) or parts.reason


BIG = {f"layer {number}": np.zeros((40, 50), np.float32) for number in range(5)}


def big_train(arrays, config, context):
    draw = np.random.default_rng(config["seed"])
    return {name: array + draw.normal(size=array.shape).astype(np.float32) for name, array in arrays.items()}, {}


@pytest.mark.parametrize(
    "upload",
    [TopK(0.01), EightBit(), ErrorFeedback(Chain((TopK(0.02), EightBit())))],
    ids=lambda one: type(one).__name__,
)
def test_what_goes_over_the_wire_is_what_the_transform_says(upload, monkeypatch):
    wire, call = [], InProcessGrid._call

    def weighed(grid, name, message):
        reply = call(grid, name, message)
        if message.metadata.message_type == "train":
            wire.append(len(recorddict_to_proto(reply.content).SerializeToString()))
        return reply

    monkeypatch.setattr(InProcessGrid, "_call", weighed)
    grid = InProcessGrid(client_app(train=big_train, uploads=upload), lambda _t: ["1", "2"])
    flower = FlowerStrategy(FedAvg(), evaluate_every=0, waiting=Waiting(clock=FakeClock()))
    flower.start(grid, to_record(BIG), num_rounds=1, timeout=10.0)
    expected = upload.num_bytes(jax.tree.map(jnp.asarray, BIG))
    assert expected < 0.3 * 4 * 10_000
    for size in wire:
        assert 0.9 * expected <= size <= expected + 3 * 250  # at most three arrays, with name and head
    (received,) = flower.history.records["bytes_uploaded"][0]
    assert sum(wire) - 2 * 250 <= received <= sum(wire)


def test_bytes_are_counted_round_by_round_and_kept(tmp_path):
    files = {"record": tmp_path / "run", "checkpoint": tmp_path / "server.npz"}
    app = client_app(train=train, uploads=EightBit())
    play(app, names=("1", "2"), rounds=2, behave=losing(1), **files)
    flower, _, _ = play(app, names=("1", "2"), rounds=3, **files)
    counts = flower.history.records["bytes_uploaded"]
    assert counts.dtype == np.int64
    one = 4 + 4 + 2 * 128  # four levels and a scale, each behind a head
    np.testing.assert_array_equal(counts, [[2 * one, 0, 2 * one]])
    np.testing.assert_array_equal(load(tmp_path / "run").points[0].history.records["bytes_uploaded"], counts)


def test_a_checkpoint_of_before_does_not_tell_the_bytes(tmp_path, monkeypatch):
    app, path = client_app(train=train), tmp_path / "server.npz"
    play(app, rounds=2, checkpoint=path)
    header, arrays = read_archive(path)
    write_archive(path, header, {name: array for name, array in arrays.items() if name != "past-bytes_uploaded"})
    flower, _, _ = play(app, rounds=3, checkpoint=path)
    counts = flower.history.records["bytes_uploaded"][0]
    assert np.isnan(counts[:2]).all()
    assert counts[2] > 0


def sent_by(app, names=("1",)):
    """What the clients upload in one round of a run with seed 0."""
    sent, grid = [], InProcessGrid(app, lambda _t: list(names), lambda _name, _t, m: "lie")
    grid.lie = lambda content: sent.append(content.array_records.get(COMPACT)) or content
    play(app, grid=grid, rounds=1)
    return [to_numpy(record) for record in sent if record is not None]


def test_noise_is_the_clients_own():
    """Rounding follows the server's seed; noise does not."""
    rounded = [sent_by(client_app(train=train, uploads=EightBit()))[0] for _ in range(2)]
    np.testing.assert_equal(*rounded)
    noisy = [sent_by(client_app(train=train, uploads=Chain((Clip(1.0), Noise(0.1)))))[0][VALUES] for _ in range(2)]
    assert np.abs(noisy[0] - noisy[1]).min() > 0
    deviations = np.array(noisy) - STEP / np.linalg.norm(STEP)
    assert np.abs(deviations).max() < 0.6


@pytest.mark.parametrize("identity", ["declared", "node"])
def test_noise_is_refused_where_lengths_decide_who_uploads(identity, caplog):
    """By the greeting where there is one, else by the order; before any work is done."""
    worked = []

    def noted(arrays, config, context):
        worked.append(context.node_config["client-id"])
        return train(arrays, config, context)

    noisy, plain = client_app(train=noted, uploads=Noise(0.1)), client_app(train=noted, uploads=EightBit())

    def either(message, context):
        return (noisy if context.node_config["client-id"] == "1" else plain)(message, context)

    flower, _, _ = play(either, names=("1", "2"), rounds=2, strategy=OptimalSampling(cohort=1), identity=identity)
    assert "chooses uploads by the lengths of updates, which Noise hides: take one or the other" in caplog.text
    assert set(worked) == {"2"}
    assert [len(record.arrived) for record in flower.records] == [1, 1]
    assert ("cannot join" in caplog.text) is (identity == "declared")


def test_a_kept_upload_is_sent_when_it_is_asked_for():
    sizes = []

    def behave(name, _t, message):
        return "lie" if message.metadata.message_type == "query.upload" else "answer"

    def weigh(content):
        sizes.append(sum(len(array.data) for array in content[COMPACT].values()))
        return content

    app = client_app(train=train, uploads=ErrorFeedback(TopK(0.25)))
    flower, weight, _ = play(app, rounds=3, strategy=OptimalSampling(cohort=1), behave=behave, lie=weigh)
    np.testing.assert_allclose(weight, by_feedback([True] * 3))
    np.testing.assert_array_equal(flower.history.records["bytes_uploaded"], [sizes])


def test_a_server_that_does_not_tell_what_uploads_need_is_named():
    app = client_app(train=train, uploads=FEEDBACK)
    config = ConfigRecord({"lr": 0.5, "seed": 1, "server-round": 1})
    message = Message(RecordDict({"arrays": to_record(MODEL), "config": config}), 1, "train")
    message.metadata.__dict__["_message_id"] = "m"
    with pytest.raises(ValueError, match="the server sends no 'upload-seed'"):
        app(message, Context(7, 1, {}, RecordDict(), {}))
