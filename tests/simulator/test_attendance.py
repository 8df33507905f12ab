import numpy as np
import pytest

from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.attendance import MAX_CLIENTS, STATES, Roll, watched_clients
from turnout.strategies import FedAvg
from turnout.tasks.quadratics import quadratics
from turnout.world import World
from turnout.world.links import bernoulli as lossy


@pytest.fixture(scope="module")
def history():
    world = World(bernoulli(8, 0.6), lossy(8, 0.7), 1)
    return simulate(quadratics(8, 2), world, FedAvg(cohort=3), rounds=600, seeds=[4, 9], evaluate_every=600)


def test_it_tells_what_the_records_tell(history):
    seen = history.attendance
    assert (seen.seed, seen.clients.tolist()) == (4, list(range(8)))
    np.testing.assert_array_equal(seen.rounds, np.arange(1, 601, 2))  # 600 rounds in 512 rows
    for name, least in (("available", 1), ("uploads", 2), ("arrived", 3)):
        counted = (seen.states >= least).sum(axis=1)
        np.testing.assert_array_equal(counted, history.records[name][0, seen.rounds - 1])
    assert set(np.unique(seen.states)) == {0, 1, 2, 3}


def test_it_is_a_tidy_table(history):
    frame = history.attendance_frame()
    assert frame.columns == ["seed", "round", "client", "state"]
    assert frame.height == 300 * 8
    cell = frame.filter((frame["round"] == 5) & (frame["client"] == 3))["state"].item()
    assert cell == STATES[history.attendance.states[2, 3]]


def test_a_history_knows_its_fleet_and_its_time(history):
    np.testing.assert_allclose(history.target, 1 / 8)
    np.testing.assert_allclose(history.pi, 0.6, rtol=1e-6)
    assert history.seconds > 0


def test_time_to_a_level_is_told_by_seed(history):
    """600 rounds with two evaluations, at the beginning and at the end."""
    final, loss = history.final("train_loss"), "train_loss"
    assert history.rounds_to(loss, final).tolist() == [600, 600]
    assert history.rounds_to(loss, np.array([np.inf, -1.0])).tolist() == [0, np.inf]
    with pytest.raises(KeyError, match="no metric 'accuracy'"):
        history.rounds_to("accuracy", 0.5)


def test_of_a_large_fleet_some_are_watched():
    chosen = watched_clients(10_000)
    assert len(set(chosen.tolist())) == MAX_CLIENTS
    assert set(chosen % 2) == {0, 1}  # fleets are often laid out in a pattern
    np.testing.assert_array_equal(watched_clients(5), np.arange(5))


@pytest.mark.parametrize(("room", "rows", "stride"), [(64, 64, 1), (512, 512, 1), (4096, 512, 8)])
def test_the_room_does_not_grow_with_the_rounds(room, rows, stride):
    roll = Roll.empty(3, room)
    assert (roll.states.shape, roll.stride) == ((rows, 3), stride)
