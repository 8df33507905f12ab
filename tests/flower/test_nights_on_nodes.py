"""Nights, thin rounds and late starts on real nodes: nothing walks away meanwhile."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import MetricRecord
from inprocess import FakeClock, InProcessGrid, grouped

import nights
from turnout.flower import FlowerStrategy, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, FedLaAvg, FedVARP, LastWord, StaleFill

COUNT, RATE = 6, 0.05
QUIET = [LastWord(), LastWord(memory="clients"), MIFA(), FedLaAvg(), StaleFill(cohort=3), FedVARP()]
BOTH = [LastWord(), LastWord(memory="clients")]


class Killed(BaseException):
    """The end of a server's process."""


def played(strategy, *spells, dies_in=None, **options):
    """How far the model is from the optimum of quadratics, at the beginning and after every round; and the model.

    If the server is killed in a turn, another one goes on with the next.
    """
    there = np.concatenate(spells)
    centres = np.random.default_rng(2).normal(scale=10.0, size=(there.shape[1], 3)).astype(np.float32)

    def train(arrays, config, context):
        place, model = int(context.node_config["client-id"]), arrays["w"]
        for _ in range(1 + place % 4):
            model = model + np.float32(config["lr"]) * (centres[place] - model)
        return {"w": model}, {"reach": 1 + place % 4}

    def distance(_t, arrays):
        return MetricRecord({"distance": float(np.linalg.norm(to_numpy(arrays)["w"] - centres.mean(axis=0)))})

    def listed(turn):
        if turn == dies_in and len(begun) == 1:
            raise Killed
        return [str(place) for place in np.flatnonzero(there[turn])]

    def serve():
        begun.append(FlowerStrategy(strategy, **grouped(**settings | options)))
        start = to_record({"w": np.full(3, 10.0, np.float32)})
        rounds = len(there) - (0 if dies_in is None else 2)  # one that it dies in, and one since its checkpoint
        return begun[-1].start(grid, start, num_rounds=rounds, timeout=10.0, evaluate_fn=distance)

    settings = {"local": Local(learning_rate=RATE), "evaluate_every": 0, "clock": FakeClock(), "guard": None}
    grid, begun = InProcessGrid(client_app(train=train), listed), []
    if dies_in is not None:
        with pytest.raises(Killed):
            serve()
    result = serve()
    found = [metrics["distance"] for _, metrics in sorted(result.evaluate_metrics_serverapp.items())]
    return np.array(found), to_numpy(result.arrays)["w"]


@pytest.mark.parametrize("strategy", QUIET, ids=str)
def test_a_hundred_empty_rounds_change_no_model(strategy):
    """In the middle of a run, and at its end; nothing is a round before the first client has come."""
    day, night = nights.usual(COUNT, 10), nights.nobody(COUNT)
    found, _ = played(strategy, day, night, day, night)
    print(strategy, "before and after each night", found[[10, 110, 120, 220]])
    assert np.ptp(found[10:111]) == np.ptp(found[120:]) == 0
    assert found[120] < found[10] < found[0]


@pytest.mark.parametrize("strategy", [LastWord(rule="plain"), MIFA(moves_when_empty=True)], ids=str)
def test_with_the_rules_of_before_a_model_walks_away_at_night(strategy):
    found, _ = played(strategy, nights.usual(COUNT, 3), nights.nobody(COUNT))
    print(strategy, "before and after the night", found[[3, -1]])
    assert found[-1] > 2 * found[3]


def test_one_client_of_a_hundred_for_a_hundred_rounds_at_most_doubles_the_distance():
    found, _ = played(LastWord(memory="clients"), nights.usual(100, 5), nights.one(100, client=7))
    print("before, and the farthest in thin rounds", found[5], found[5:].max())
    assert found[5:].max() <= 2 * found[5]


def test_a_fleet_that_sleeps_at_night_is_as_near_in_the_morning():
    found, _ = played(LastWord(), nights.usual(12, 1), nights.days(12, count=4))
    assert found[-1] == pytest.approx(found[-10], rel=0.05)
    assert found[-20:].max() < 0.3 * found[0]


def test_a_memory_on_the_clients_is_that_on_the_server_through_all_of_it():
    """Late starts, nights and rounds with one client, with unequal work."""
    spells = nights.late(COUNT, 8), nights.nobody(COUNT, 5), nights.usual(COUNT, 8), nights.one(COUNT, 8)
    (found, server), (_, clients) = (played(strategy, *spells, nights.usual(COUNT, 4)) for strategy in BOTH)
    np.testing.assert_allclose(clients, server, rtol=1e-5, atol=1e-5)
    assert found[-1] < 0.5 * found[0]


@pytest.mark.parametrize("strategy", BOTH, ids=str)
def test_a_server_that_is_killed_at_night_goes_on_in_the_morning(strategy, tmp_path):
    """What it knows of the usual work and of the news is in its checkpoint."""
    evening, day = nights.usual(COUNT, 6), nights.usual(COUNT, 6, seed=1)
    _, undisturbed = played(strategy, evening, nights.nobody(COUNT, 6), day)
    files = {"checkpoint": tmp_path / "state.npz", "every": 2}
    _, model = played(strategy, evening, nights.nobody(COUNT, 8), day, dies_in=9, **files)
    np.testing.assert_allclose(model, undisturbed, rtol=1e-6)
