"""A group of trials that is stopped between two segments and goes on ends with the same bits."""

import jax
import numpy as np
import pytest

from turnout.availability import cyclic, two_classes
from turnout.simulator import savepoint
from turnout.simulator.batching import run_group
from turnout.simulator.client_optimizer import Local
from turnout.simulator.run_plan import RunPlan
from turnout.simulator.trial import Trial, group_trials
from turnout.strategies import MIFA, FedAvg, LastWord
from turnout.tasks.quadratics import quadratics
from turnout.world import World

TASK = quadratics(6, 3, noise=0.5)
RUN_PLAN = RunPlan(rounds=11, every=3, segment=3, metrics=None)
USUAL = two_classes(6)
NIGHT = cyclic(6, period=9, offset=[0, 0, 1, 3, 4, 5], duration=[2, 4, 2, 1, 1, 1])  # one in 4 and 5, then none


@pytest.fixture(autouse=True)
def save_always(monkeypatch):
    monkeypatch.setattr(savepoint, "SECONDS", 0.0)
    monkeypatch.setattr(savepoint, "COST", 0)


def play(strategies, folder=None, until=10**9, seeds=(0, 3), spread="lanes", there=USUAL):
    trials = [Trial(one, World(there), Local(learning_rate=0.1)) for one in strategies]
    (group,) = group_trials([trials])
    calls = [0]

    def report(done, latest):
        calls[0] += 1
        if calls[0] > until:
            raise KeyboardInterrupt

    return run_group([TASK], group, seeds, RUN_PLAN, report, folder, spread=spread), calls[0]


def same(one, other):
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    for name in ("metrics", "records", "clients"):
        assert getattr(one, name).keys() == getattr(other, name).keys()
        for key, values in getattr(one, name).items():
            np.testing.assert_array_equal(values, getattr(other, name)[key], err_msg=key)
    np.testing.assert_array_equal(one.attendance.states, other.attendance.states)


@pytest.mark.parametrize(
    ("strategies", "there"),
    [([FedAvg(cohort=2), FedAvg(cohort=3)], USUAL), ([MIFA()], USUAL), ([LastWord(memory="clients")], NIGHT)],
    ids=["cohorts", "memory", "night"],
)
def test_a_group_that_is_stopped_after_every_segment_ends_alike(tmp_path, strategies, there):
    whole, _ = play(strategies, there=there)
    stops = 0
    while True:
        try:
            pieces, _ = play(strategies, tmp_path, until=2, there=there)  # each of two crews tells where it is
            break
        except KeyboardInterrupt:
            stops += 1
            assert stops < 100
    assert stops > 1
    for one, other in zip(whole, pieces, strict=True):
        same(one, other)


def test_a_damaged_state_is_told_and_its_rounds_are_run_again(tmp_path, caplog):
    whole, calls = play([FedAvg()])
    with pytest.raises(KeyboardInterrupt):
        play([FedAvg()], tmp_path, until=4)
    for file in tmp_path.iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    again, calls_again = play([FedAvg()], tmp_path)
    assert calls_again == calls
    assert "edited or damaged since it was written: these rounds are run again" in caplog.text
    same(whole[0], again[0])


def test_keys_and_odd_numbers_are_kept_as_they_are(tmp_path):
    carry = {"key": jax.random.key(3), "half": jax.numpy.arange(3, dtype=jax.numpy.bfloat16), "on": np.array([True])}
    point = savepoint.Savepoint(tmp_path / "state.npz", np.arange(2))
    so_far = savepoint.SoFar(2, carry, 1.0, [({"loss": np.ones((2, 2))}, {"arrived": np.zeros((2, 3))})])
    point.save(so_far, now=True)
    restored = savepoint.Savepoint(tmp_path / "state.npz", np.arange(2)).restore(carry)
    assert restored.blocks == 2
    assert jax.random.key_data(restored.carry["key"]).tolist() == jax.random.key_data(carry["key"]).tolist()
    assert restored.carry["half"].dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(np.asarray(restored.carry["half"]), np.asarray(carry["half"]))
    assert savepoint.Savepoint(tmp_path / "state.npz", np.arange(3)).restore(carry).blocks == 0


def test_a_state_is_saved_only_when_it_is_due_and_not_too_large(tmp_path, monkeypatch):
    so_far = savepoint.SoFar(2, {"x": jax.numpy.zeros(100)}, 1.0, [({}, {})])
    monkeypatch.setattr(savepoint, "SECONDS", 3600.0)
    point = savepoint.Savepoint(tmp_path / "state.npz", np.arange(2))
    point.save(so_far, now=False)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(savepoint, "LARGEST", 399)
    point.save(so_far, now=True)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(savepoint, "LARGEST", 400)
    point.save(so_far, now=True)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
