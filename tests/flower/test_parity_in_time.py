"""A server that does not wait: the same arrivals in the same order give the simulator's model."""

import functools

import numpy as np
import pytest
import stage

from every_strategy import ONE_EACH

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid
from test_parity import APP, STEERED, STEPWISE, TARGET, relative

from turnout import simulate_trials
from turnout.availability import bernoulli
from turnout.flower import FlowerStrategy, Members, Waiting
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.paces import Buffered, Clocked, Rounds
from turnout.server.facts import Online
from turnout.server.settings import ServerSettings
from turnout.simulator.trial import Trial
from turnout.world import World, compute, durations

TICKS = [0, 3, 1, 7, 2, 0, 4]  # beyond the first, by client
PACES = {
    "buffered": Buffered(size=2, concurrency=4),
    "buffered, all at work": Buffered(size=3),
    "rounds, late dropped": Rounds(quorum=0.5),
    "rounds, late kept": Rounds(quorum=0.5, late="keep"),
    "rounds, deadline": Rounds(deadline=3, late="keep", concurrency=5),
    "clocked": Clocked(every=2),
}
LENGTH = 40  # ticks
# Facts of real nodes are noted every 30 seconds, not tick by tick, and some strategies need whole rounds.
NAMES = [
    name
    for name, strategy in ONE_EACH.items()
    if not strategy.needs_losses
    and strategy.admits_all
    and not strategy.needs_lost
    and not {"pi", "lam", "success", "reach"} & set(strategy.needs)
]


def simulated(strategy, pace):
    """The model after so many ticks, and the steps of the server."""
    number = stage.NUM_CLIENTS
    world = World(
        bernoulli(number, 1.0),
        None,
        compute.per_client(number, (1 + np.arange(number) % 4).tolist()),
        durations.fixed(number, TICKS),
    )
    trial = Trial(strategy, world, stage.LOCAL, ServerSettings(facts=Online()), pace=pace)
    (history,) = simulate_trials(stage.TASK, [trial], rounds=LENGTH)
    return np.asarray(history.params[0]), int(history.records["server_steps"].sum())


def play(strategy, pace, steps, app=APP, **options):
    """The strategy after so many steps on nodes that take this long."""
    clock = FakeClock()

    def takes(name, _turn, message):
        return TICKS[int(name)] + 0.5 if message.metadata.message_type == "train" else 0.0

    grid = InProcessGrid(app, lambda _t: [str(k) for k in range(stage.NUM_CLIENTS)], clock=clock, takes=takes)
    flower = FlowerStrategy(
        strategy,
        pace=pace,
        target=TARGET,
        local=stage.LOCAL,
        evaluate_every=0,
        members=Members(listed="available"),
        waiting=Waiting(clock=clock),
        **options,
    )
    result = flower.start(grid, to_record(stage.START), num_rounds=steps, timeout=100.0)
    assert len(flower.records) == steps
    return flower, to_numpy(result.arrays)["x"]


@functools.lru_cache
def both(name, pace):
    strategy = ONE_EACH[name]
    expected, steps = simulated(strategy, PACES[pace])
    app = STEPWISE if name in STEERED else APP
    flower, found = play(strategy, PACES[pace], steps, app, guard=None)
    return flower, found, expected, steps


@pytest.mark.parametrize("name", NAMES)
def test_a_buffered_server_trains_the_model_of_the_simulator(name):
    _, found, expected, steps = both(name, "buffered")
    assert steps > 8
    assert relative(found, expected) < 1e-6
    assert np.abs(expected - stage.START["x"]).max() > 0.01


@pytest.mark.parametrize("pace", list(PACES)[1:])
@pytest.mark.parametrize("name", ["fedavg", "last_word", "mifa", "scaffold"])
def test_every_pace_means_on_nodes_what_it_means_in_simulations(name, pace):
    _, found, expected, _ = both(name, pace)
    assert relative(found, expected) < 1e-6
