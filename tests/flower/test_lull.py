"""Rounds in which nobody can be asked take their time, or a fleet that is away for a minute misses a whole training."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import InProcessGrid

from turnout.availability import markov
from turnout.flower import FlowerStrategy, ImposedGrid, client_app
from turnout.flower.wire.messages import to_record
from turnout.flower.wire.polling import Clock
from turnout.strategies import FedAvg

APP = client_app(train=lambda arrays, *_: (arrays, {"loss": 1.0}))


class Sundial(Clock):
    """Time that passes only in sleep."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


def arrivals(grid, clock, rounds=3):
    flower = FlowerStrategy(FedAvg(), poll=1.0, evaluate_every=0, clock=clock)
    flower.start(grid, to_record({"w": np.zeros(1)}), num_rounds=rounds, timeout=100.0)
    return [len(record.arrived) for record in flower.records]


def test_a_fleet_that_comes_late_misses_one_round_and_not_all():
    clock = Sundial()
    grid = InProcessGrid(APP, lambda _t: ["1", "2"] if clock.time >= 30 else [])
    assert arrivals(grid, clock) == [0, 2, 2]
    assert 30 <= clock.time < 40


def test_a_round_with_nobody_lasts_until_the_timeout():
    clock = Sundial()
    assert arrivals(InProcessGrid(APP, lambda _t: []), clock) == [0, 0, 0]
    assert clock.time == pytest.approx(300.0)


def test_clients_that_cannot_say_who_they_are_do_not_make_rounds_fly_past():
    clock = Sundial()
    grid = InProcessGrid(APP, lambda _t: ["1"], lambda *_: "raise")
    assert arrivals(grid, clock) == [0, 0, 0]
    assert clock.time >= 300.0


def test_absences_that_are_imposed_take_no_time():
    clock = Sundial()
    grid = ImposedGrid(InProcessGrid(APP, lambda _t: ["1"]), markov(1, pi=0.3))
    grid.clock = clock
    counts = arrivals(grid, clock, rounds=12)
    assert 0 < sum(counts) < 12
    assert clock.time == 0.0
