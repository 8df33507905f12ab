"""Slow clients and servers that do not wait: the compiled ticks against plain loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from played_in_time import Fleet, LastWords, Mifa, fedavg, play
from steered import Steered
from turnout import Local, World, simulate
from turnout.availability import bernoulli, markov
from turnout.paces import Buffered, Clocked, Rounds
from turnout.strategies import MIFA, FedAvg, FedVARP, LastWord
from turnout.tasks.quadratics import Quadratics
from turnout.world import compute, durations, links

COUNT, TICKS = 9, 80
RNG = np.random.default_rng(1)
FLEET = Fleet(RNG.normal(size=(COUNT, 3)), np.linspace(0.5, 1.5, COUNT), np.linspace(1.0, 2.0, COUNT))
PACES = {
    "rounds": Rounds(),
    "quorum": Rounds(quorum=0.5),
    "quorum kept": Rounds(quorum=0.5, late="keep"),
    "deadline": Rounds(deadline=3),
    "capped rounds": Rounds(quorum=0.7, concurrency=4),
    "buffered": Buffered(size=3),
    "capped": Buffered(size=3, concurrency=5),
    "one": Buffered(size=1),
    "clocked": Clocked(every=4),
    "capped clock": Clocked(every=3, concurrency=4),
}
ALGORITHMS = {"fedavg": (FedAvg(), lambda: fedavg), "mifa": (MIFA(), Mifa), "last_word": (LastWord(), LastWords)}


def task():
    return Quadratics.of(FLEET.centres, FLEET.curvature, importance=FLEET.importance.tolist(), start=np.ones(3))


def world(leaving, success=0.8):
    away = markov(COUNT, pi=np.linspace(0.3, 0.9, COUNT).tolist(), lam=0.4)
    slow = durations.lognormal(COUNT, median=np.linspace(1, 7, COUNT).tolist(), sigma=0.5, most=12.0, leaving=leaving)
    steps = compute.per_client(COUNT, [1, 2, 3, 4, 1, 2, 3, 4, 2])
    return World(away, links.bernoulli(COUNT, success), steps, slow)


def rate(version):
    return 0.2 / (1.0 + 0.05 * jnp.asarray(version, jnp.float32))


def compiled(strategy, pace, leaving, **options):
    local = Local(learning_rate=rate, batch_size=1)
    return simulate(task(), world(leaving), strategy, rounds=TICKS, local=local, pace=pace, **options)


@pytest.mark.parametrize("leaving", ["continue", "pause", "abort"])
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_ticks_are_those_of_plain_loops(name, pace, leaving):
    strategy, twin = ALGORITHMS[name]
    run = compiled(strategy, PACES[pace], leaving)
    plain = play(world(leaving), FLEET, PACES[pace], twin(), TICKS, rate)
    np.testing.assert_allclose(run.params[0], plain.model, rtol=1e-5, atol=1e-6)
    assert run.records["server_steps"].sum() == plain.versions > 0
    np.testing.assert_array_equal(run.clients["used"][0], plain.used)
    assert run.ages.sum() == len(plain.ages)
    np.testing.assert_allclose((run.clients["age"] * run.clients["used"]).sum(), sum(plain.ages), rtol=1e-5)
