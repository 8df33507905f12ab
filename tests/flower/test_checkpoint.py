import numpy as np
import pytest

from turnout.files.archive import read_archive, write_archive
from turnout.flower.run import checkpoint
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.wire.replies import Reply
from turnout.server.settings import ServerSettings
from turnout.strategies import MIFA, FedAvg

START = {"w/0": np.zeros(2, np.float32), "count": np.array(3)}


def play(driver, name, value):
    driver.open_round([name])
    driver.close_round({name: Reply({"w/0": np.full(2, value, np.float32)}, abs(value), 0.5, 2.0, 3)})


def trained():
    driver = Driver(MIFA(), START, seed=4)
    driver.join({"id:a": 1.0, "id:ü/'x": 3.0})
    play(driver, "id:a", 1.0)
    return driver


def test_a_driver_goes_on_where_it_was(tmp_path):
    path = tmp_path / "deep" / "state.npz"
    first, second = trained(), Driver(MIFA(), START, seed=4)
    checkpoint.save(path, first, Chronicle())
    assert checkpoint.resume(path, second, Chronicle())
    assert (second.t, second.directory.names, second.importance) == (1, ("id:a", "id:ü/'x"), (1.0, 3.0))
    for driver in (first, second):
        driver.join({"late": 1.0})
        play(driver, "id:ü/'x", 2.0)
    assert first.named_leaves().keys() == second.named_leaves().keys()
    for leaf, other in zip(first.named_leaves().values(), second.named_leaves().values(), strict=True):
        np.testing.assert_array_equal(leaf, other)
    assert [found.name for found in path.parent.iterdir()] == ["state.npz"]


def test_without_a_file_it_begins_anew(tmp_path):
    driver = Driver(MIFA(), START)
    assert not checkpoint.resume(tmp_path / "none.npz", driver, Chronicle())
    assert driver.t == 0


def test_before_the_first_client(tmp_path):
    first, second = Driver(MIFA(), START), Driver(MIFA(), START)
    first.close_round({})
    checkpoint.save(tmp_path / "state.npz", first, Chronicle())
    assert checkpoint.resume(tmp_path / "state.npz", second, Chronicle())
    assert second.t == 1


def test_a_crash_while_writing_leaves_the_last_file(tmp_path, monkeypatch):
    path, driver = tmp_path / "state.npz", trained()
    checkpoint.save(path, driver, Chronicle())
    play(driver, "id:a", 2.0)
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, driver, Chronicle())
    again = Driver(MIFA(), START, seed=4)
    assert checkpoint.resume(path, again, Chronicle())
    assert again.t == 1


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (Driver(FedAvg(), START, seed=4), "its strategy is 'MIFA', not 'FedAvg'"),
        (Driver(MIFA(), START), "its seed is 4, not 0"),
        (Driver(MIFA(), {"w/0": np.zeros(3, np.float32)}, seed=4), r"is float32\(3,\), but it holds float32\(2,\)"),
        (Driver(MIFA(), {"v": np.zeros(2, np.float32)}, seed=4), "but it holds nothing"),
    ],
)
def test_a_file_of_another_training_is_refused(tmp_path, driver, reason):
    checkpoint.save(tmp_path / "state.npz", trained(), Chronicle())
    with pytest.raises(ValueError, match=reason) as error:
        checkpoint.resume(tmp_path / "state.npz", driver, Chronicle())
    assert "move the file away to begin anew" in str(error.value)


def test_a_state_of_a_former_version_is_refused(tmp_path):
    """Its arrays had other names then."""
    path = tmp_path / "state.npz"
    checkpoint.save(path, trained(), Chronicle())
    header, arrays = read_archive(path)
    former = {name.replace(".strategy.rows", ".strategy.memory.rows"): array for name, array in arrays.items()}
    assert former.keys() != arrays.keys()
    write_archive(path, header, former)
    with pytest.raises(ValueError, match=r"another version of turnout, or other settings.*move the file away"):
        checkpoint.resume(path, Driver(MIFA(), START, seed=4), Chronicle())


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "state.npz"
    checkpoint.save(path, trained(), Chronicle())
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 211):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"cannot go on from .*state\.npz"):
            checkpoint.resume(path, Driver(MIFA(), START, seed=4), Chronicle())


@pytest.mark.parametrize(
    ("header", "leaf", "reason"),
    [
        ({"round": -1}, None, "its round is -1"),
        ({"round": 2**31}, None, "its round is 2147483648"),
        ({"round": 1.5}, None, "its round is 1.5"),
        ({"importance": [1.0, 0.0]}, None, "is 0.0, not a number from"),
        ({"importance": [1.0, float("nan")]}, None, "is nan, not a number from"),
        ({"importance": [1.0, "x"]}, None, "is 'x', not a number from"),
        ({"importance": [1.0, 3.1e105]}, None, r"is 3.1e\+105, not a number from 1e-30 to 1e\+30"),
        ({"clients": ["id:a", "id:a"]}, None, "different names"),
        ({"clients": 3}, None, "cannot go on from"),
        ({"chronicle": []}, None, "cannot go on from"),
        ({}, np.nan, "is not finite everywhere"),
    ],
)
def test_numbers_that_no_training_has_are_refused(tmp_path, header, leaf, reason):
    path = tmp_path / "state.npz"
    checkpoint.save(path, trained(), Chronicle())
    stored, arrays = read_archive(path)
    if leaf is not None:
        name = next(name for name, array in arrays.items() if array.dtype == np.float32 and array.size)
        arrays[name] = np.full_like(arrays[name], leaf)
    write_archive(path, stored | header, arrays)
    with pytest.raises(ValueError, match=reason):
        checkpoint.resume(path, Driver(MIFA(), START, seed=4), Chronicle())


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 torn"])
def test_a_torn_file_is_named(tmp_path, content):
    (tmp_path / "state.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot go on from .*state\.npz"):
        checkpoint.resume(tmp_path / "state.npz", Driver(FedAvg(), START, settings=ServerSettings()), Chronicle())


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("nothing", MIFA(), "moved, but from now on it stays: with moves_when_empty=True it goes on as before"),
        ("nothing", MIFA(moves_when_empty=True), None),
        (MIFA(), MIFA(moves_when_empty=True), "stayed, but from now on it moves: with moves_when_empty=False it goes"),
        (MIFA(), MIFA(), None),
    ],
)
def test_a_rule_for_empty_rounds_that_changes_is_told(tmp_path, caplog, before, now, said):
    """A file without it is of a version whose model moved."""
    path, first = tmp_path / "state.npz", Driver(MIFA() if before == "nothing" else before, START, seed=4)
    first.join({"id:a": 1.0})
    checkpoint.save(path, first, Chronicle())
    if before == "nothing":
        header, arrays = read_archive(path)
        del header["moves_alone"]
        write_archive(path, header, arrays)
    assert checkpoint.resume(path, Driver(now, START, seed=4), Chronicle())
    assert (said in caplog.text) if said else not caplog.text
