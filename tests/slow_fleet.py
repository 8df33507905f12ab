"""A small fleet of slow clients, and the check that a strategy does what its paper's rule does in plain loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from played_in_time import Fleet, play
from turnout import Local, World, simulate
from turnout.availability import markov
from turnout.paces import Buffered, Clocked, Rounds
from turnout.tasks.quadratics import Quadratics
from turnout.world import compute, durations, links

COUNT, TICKS = 9, 80
_RNG = np.random.default_rng(1)
FLEET = Fleet(_RNG.normal(size=(COUNT, 3)), np.linspace(0.5, 1.5, COUNT), np.linspace(1.0, 2.0, COUNT))
# Each is a program of its own: the first with every change, the others in a longer suite.
CASES = [
    pytest.param(Buffered(size=3, concurrency=6), "continue", id="buffered"),
    pytest.param(Buffered(size=1), "abort", id="one by one", marks=pytest.mark.variant),
    pytest.param(Clocked(every=4), "pause", id="clocked", marks=pytest.mark.variant),
    pytest.param(Rounds(quorum=0.5, late="keep"), "abort", id="quorum kept", marks=pytest.mark.variant),
]


def task():
    return Quadratics.of(FLEET.centres, FLEET.curvature, importance=FLEET.importance.tolist(), start=np.ones(3))


def world(leaving="continue", success=0.8):
    away = markov(COUNT, pi=np.linspace(0.3, 0.9, COUNT).tolist(), lam=0.4)
    slow = durations.lognormal(COUNT, median=np.linspace(1, 7, COUNT).tolist(), sigma=0.5, most=12.0, leaving=leaving)
    steps = compute.per_client(COUNT, [1, 2, 3, 4, 1, 2, 3, 4, 2])
    return World(away, links.bernoulli(COUNT, success), steps, slow)


def rate(version):
    return 0.1 / (1.0 + 0.05 * jnp.asarray(version, jnp.float32))


def compiled(strategy, pace, leaving="continue", **options):
    local = Local(learning_rate=rate, batch_size=1)
    return simulate(task(), world(leaving), strategy, rounds=TICKS, local=local, pace=pace, **options)


def check_against(twin, strategy, pace, leaving):
    """The model of the simulator is that of the plain loops, after some steps with old updates."""
    run = compiled(strategy, pace, leaving)
    plain = play(world(leaving), FLEET, pace, twin, TICKS, rate)
    assert run.records["server_steps"].sum() == plain.versions > 5
    assert max(plain.ages) >= (3 if isinstance(pace, Buffered) else 1)
    assert np.abs(plain.model - 1.0).max() > 0.05
    np.testing.assert_allclose(run.params[0], plain.model, rtol=1e-5, atol=1e-5)


def check_in_rounds(twin, strategy, success=0.7, rounds=40, local_rate=0.05):
    """The same in plain rounds, with clients that come unequally, lost uploads and unequal work, some of it none."""
    away = markov(COUNT, pi=np.linspace(0.3, 0.9, COUNT).tolist(), lam=0.4)
    steps = compute.per_client(COUNT, [1, 4, 2, 7, 3, 0, 5, 1, 9])
    plain_world = World(away, links.bernoulli(COUNT, success), steps)
    local = Local(learning_rate=local_rate, batch_size=1)
    run = simulate(task(), plain_world, strategy, rounds=rounds, local=local)
    plain = play(plain_world, FLEET, Rounds(), twin, rounds, lambda version: local_rate)
    assert np.abs(plain.model - 1.0).max() > 0.05
    np.testing.assert_allclose(run.params[0], plain.model, rtol=2e-5, atol=5e-6)
