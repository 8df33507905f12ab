"""What clients remember of their uploads: only what arrived counts, through restarts of either side."""

import logging

import jax
import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid, grouped

from turnout.files.archive import read_archive
from turnout.flower import FlowerStrategy, client_app
from turnout.flower.memory import REMEMBERED
from turnout.flower.run import checkpoint
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg
from turnout.uploads import ErrorFeedback, TopK

MODEL = {"w": np.zeros(4, np.float32), "seen": np.array(5)}
STEP = np.array([4.0, 3.0, 2.0, 1.0], np.float32)


def train(arrays, config, context):
    """The same update each time, so that what was left out can be told from what is sent later."""
    return {**arrays, "w": arrays["w"] + STEP}, {"loss": 1.0, "reach": 1}


FEEDBACK = ErrorFeedback(TopK(0.25))  # one entry of four


def play(app, *, names=("1",), behave=None, lie=None, rounds=3, strategy=None, grid=None, listed=None, **options):
    grid = grid or InProcessGrid(app, listed or (lambda _t: list(names)))
    grid.app, grid.behave, grid.lie = app, behave or grid.behave, lie or grid.lie
    options = {"local": Local(learning_rate=0.5), "evaluate_every": 0, "clock": FakeClock()} | options
    flower = FlowerStrategy(strategy or FedAvg(), **grouped(**options))
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=10.0)
    arrays = to_numpy(result.arrays)
    assert arrays["seen"] == 5
    return flower, arrays["w"], grid


def by_feedback(arrivals):
    """The model of one client, worked out by hand: what is left out is sent later, and a lost upload is lost."""
    model, left = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for arrives in arrivals:
        whole = STEP + left
        sent = np.where(np.arange(4) == np.argmax(whole), whole, 0.0).astype(np.float32)
        if arrives:
            model, left = model + sent, whole - sent
    return model


def losing(*turns):
    """Uploads of these rounds, counted from 0, are lost."""
    return lambda _name, t, message: "lost" if message.metadata.message_type == "train" and t in turns else "answer"


def test_what_is_left_out_is_sent_later():
    _, weight, grid = play(client_app(train=train, uploads=FEEDBACK), rounds=8)
    np.testing.assert_allclose(weight, by_feedback([True] * 8))
    assert np.count_nonzero(weight) == 4  # the smallest entry has had its turn, too
    assert REMEMBERED in grid.contexts[grid.node("1")].state


def test_a_lost_upload_is_lost_for_both_sides():
    _, weight, _ = play(client_app(train=train, uploads=FEEDBACK), rounds=6, behave=losing(1, 2, 4))
    np.testing.assert_allclose(weight, by_feedback([True, False, False, True, False, True]))
    assert not np.array_equal(weight, by_feedback([True] * 6))


def test_a_first_upload_that_is_lost_leaves_nothing_behind():
    _, weight, _ = play(client_app(train=train, uploads=FEEDBACK), rounds=3, behave=losing(0))
    np.testing.assert_allclose(weight, by_feedback([False, True, True]))


@pytest.mark.parametrize("lost", [(), (1,)])
@pytest.mark.parametrize("with_file", [True, False])
def test_a_client_that_starts_again_remembers_what_is_in_its_file(with_file, lost, tmp_path, caplog):
    """It is another node from round 2 on, with a state of its own that is empty."""
    place = tmp_path / "deep" / "memory.npz" if with_file else None
    app = client_app(train=train, uploads=FEEDBACK, state=place)
    with caplog.at_level(logging.INFO, "turnout.flower"):
        _, weight, _ = play(app, rounds=4, listed=lambda t: ["1"] if t < 2 else ["1 again"], behave=losing(*lost))
    arrivals = [t not in lost for t in range(4)]
    if with_file:
        np.testing.assert_allclose(weight, by_feedback(arrivals))
        assert [path.name for path in place.parent.iterdir()] == ["memory.npz"]
    else:
        np.testing.assert_allclose(weight, by_feedback(arrivals[:2]) + by_feedback(arrivals[2:]))
    assert ("what is remembered of the upload of round" in caplog.text) is not with_file
    assert all(record.levelno == logging.INFO for record in caplog.records if "never sent" in record.getMessage())


def test_another_run_begins_anew(tmp_path, caplog):
    app = client_app(train=train, uploads=FEEDBACK, state=str(tmp_path / "memory.npz"))
    play(app, rounds=3)
    with caplog.at_level(logging.INFO, "turnout.flower"):
        _, weight, _ = play(app, rounds=2)
    np.testing.assert_allclose(weight, by_feedback([True] * 2))
    assert "belongs to another run" in caplog.text


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"no zip"])
def test_a_file_that_cannot_be_read_is_as_good_as_none(content, tmp_path, caplog):
    def behave(_name, t, _message):
        if t == 1:
            (tmp_path / "memory.npz").write_bytes(content)
        return "answer"

    app = client_app(train=train, uploads=FEEDBACK, state=tmp_path / "memory.npz")
    with caplog.at_level(logging.INFO, "turnout.flower"):
        _, weight, _ = play(app, rounds=2, behave=behave)
    np.testing.assert_allclose(weight, 2 * by_feedback([True]))
    assert "cannot be read" in caplog.text


def test_two_clients_do_not_share_a_file(tmp_path, caplog):
    play(client_app(train=train, uploads=FEEDBACK, state=tmp_path / "one.npz"), names=("1", "2"), rounds=1)
    assert "give each client a file of its own" in caplog.text
    caplog.clear()
    own = client_app(
        train=train, uploads=FEEDBACK, state=lambda context: tmp_path / f"{context.node_config['client-id']}.npz"
    )
    flower, weight, _ = play(own, names=("1", "2"), rounds=4)
    assert all(record.arrived == ("id:1", "id:2") for record in flower.records)
    np.testing.assert_allclose(weight, by_feedback([True] * 4))
    assert (tmp_path / "2.npz").exists()


def test_the_file_is_on_the_disk_before_the_reply(tmp_path, monkeypatch):
    app = client_app(train=train, uploads=FEEDBACK, state=tmp_path / "memory.npz")

    def refuse(_handle):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", refuse)
    flower, weight, _ = play(app, rounds=1)
    assert flower.records[0].arrived == ()
    assert not (tmp_path / "memory.npz").exists()
    np.testing.assert_array_equal(weight, 0.0)


@pytest.mark.parametrize("every", [1, 3])
def test_a_server_that_goes_back_to_its_checkpoint_finds_the_memory_of_then(every, tmp_path, monkeypatch):
    """It dies before the checkpoint of round 6; what the clients did since the last one does not count."""
    files = {"checkpoint": tmp_path / "server.npz", "every": every}
    app = client_app(train=train, uploads=FEEDBACK, state=tmp_path / "memory.npz")
    save, calls = checkpoint.save, []

    def die(path, driver, *rest):
        if driver.t == 6 and not calls:
            calls.append(driver.t)
            raise MemoryError
        save(path, driver, *rest)

    monkeypatch.setattr(checkpoint, "save", die)
    with pytest.raises(MemoryError):
        play(app, rounds=8, **files)
    flower, weight, _ = play(app, rounds=8, **files)
    assert flower.records[0].t == (5 if every == 1 else 3)
    np.testing.assert_allclose(weight, by_feedback([True] * 8))


def test_versions_that_no_server_can_ask_for_are_forgotten(tmp_path):
    app = client_app(train=train, uploads=FEEDBACK, state=tmp_path / "memory.npz")
    sizes = {}
    for every in (1, 4):
        files = {"checkpoint": tmp_path / f"{every}.npz", "every": every}
        play(app, rounds=8, **files)
        sizes[every] = len(read_archive(tmp_path / "memory.npz")[1])
    assert sizes == {1: 2, 4: 5}  # rounds 7 and 8; rounds 4, at which the server might begin again, to 8


class Exploding(ErrorFeedback):
    """Remembers what is not finite in its first round."""

    def encode(self, update, state, context):
        sent, after = ErrorFeedback.encode(self, update, state, context)
        return sent, jax.tree.map(lambda leaf: leaf / 0.0 - leaf / 0.0, after)


def test_what_is_not_finite_is_not_remembered():
    _, weight, _ = play(client_app(train=train, uploads=Exploding(TopK(0.25))), rounds=3)
    np.testing.assert_allclose(weight, 3 * by_feedback([True]))
