"""Rounds in which nobody can be asked take their time, or a fleet that is away for a minute misses a whole training."""

import numpy as np
import optax
import pytest

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid, TimeIsUp, grouped

from turnout.availability import markov
from turnout.flower import FlowerStrategy, ImposedGrid, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.server.settings import ServerSettings
from turnout.strategies import MIFA, FedAvg, FedVARP, LastWord

APP = client_app(train=lambda arrays, *_: (arrays, {"loss": 1.0}))


def arrivals(grid, clock, rounds=3, **options):
    flower = FlowerStrategy(FedAvg(), **grouped(poll=1.0, evaluate_every=0, clock=clock, **options))
    flower.start(grid, to_record({"w": np.zeros(1)}), num_rounds=rounds, timeout=100.0)
    return [len(record.arrived) for record in flower.records]


def test_rounds_do_not_count_before_the_first_client_has_come(caplog):
    clock = FakeClock()
    grid = InProcessGrid(APP, lambda _t: ["1", "2"] if clock.time >= 500 else [])
    with caplog.at_level("INFO", "flwr"):
        assert arrivals(grid, clock) == [2, 2, 2]
    assert 500 <= clock.time < 510
    assert caplog.text.count("Waiting for clients: 0 have joined, 1 are needed") == 9  # one a minute


def test_a_fleet_that_never_comes_is_waited_for():
    with pytest.raises(TimeIsUp):
        arrivals(InProcessGrid(APP, lambda _t: []), FakeClock(end=5000.0))


def test_a_fleet_that_is_away_for_a_while_misses_one_round_and_not_all():
    clock = FakeClock()
    grid = InProcessGrid(APP, lambda _t: ["1", "2"] if not 1 <= clock.time < 30 else [])
    grid.behave = lambda *_: clock.sleep(0.5) or "answer"
    assert arrivals(grid, clock, rounds=4) == [2, 0, 2, 2]


def test_a_round_with_nobody_lasts_until_the_timeout():
    clock = FakeClock()
    grid = InProcessGrid(APP, lambda t: ["1"] if t == 0 else [])
    assert arrivals(grid, clock) == [1, 0, 0]
    assert clock.time == pytest.approx(200.0, abs=1e-3)


def test_so_many_nodes_are_waited_for_in_every_round():
    clock = FakeClock()
    grid = InProcessGrid(APP, lambda _t: ["1"] if 100 < clock.time < 400 else ["1", "2"])
    grid.behave = lambda *_: clock.sleep(30) or "answer"
    assert arrivals(grid, clock, min_available_nodes=2) == [2, 2, 2]
    assert clock.time > 400


def test_absences_that_are_imposed_take_no_time():
    clock = FakeClock()
    grid = ImposedGrid(InProcessGrid(APP, lambda _t: ["1"]), markov(1, pi=0.3))
    grid.clock = clock
    counts = arrivals(grid, clock, rounds=12)
    assert 0 < sum(counts) < 12
    assert clock.time == 0.0


@pytest.mark.parametrize("strategy", [LastWord(), LastWord(memory="clients"), MIFA(), FedVARP()], ids=repr)
def test_a_server_that_waits_for_its_fleet_moves_nothing(strategy):
    clock, models = FakeClock(), []
    app = client_app(train=lambda arrays, *_: ({"w": arrays["w"] + 1.0}, {"loss": 1.0}))
    grid = InProcessGrid(app, lambda _t: [] if 1 <= clock.time < 250 else ["1", "2"])
    grid.behave = lambda *_: clock.sleep(0.5) or "answer"
    flower = FlowerStrategy(
        strategy,
        server=ServerSettings(optimizer=optax.sgd(0.5, momentum=0.9)) if not strategy.plain_step else None,
        **grouped(poll=1.0, evaluate_every=0, clock=clock),
    )
    flower.start(
        grid,
        to_record({"w": np.zeros(2, np.float32)}),
        num_rounds=6,
        timeout=100.0,
        evaluate_fn=lambda _t, arrays: models.append(to_numpy(arrays)["w"]) or None,
    )
    came = [len(record.arrived) > 0 for record in flower.records]
    assert came.count(False) >= 2
    assert came[0]
    assert came[-1]
    for moved, before, after in zip(came, models[:-1], models[1:], strict=True):
        assert np.array_equal(before, after) == (not moved)
