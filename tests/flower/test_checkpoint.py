import numpy as np
import pytest

from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server import checkpoint
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


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 torn"])
def test_a_torn_file_is_named(tmp_path, content):
    (tmp_path / "state.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot go on from .*state\.npz"):
        checkpoint.resume(tmp_path / "state.npz", Driver(FedAvg(), START, settings=ServerSettings()), Chronicle())
