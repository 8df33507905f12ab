"""Every strategy made for slow clients, every pace and every way of leaving, in random worlds: as plain loops."""

import jax.numpy as jnp
import numpy as np
import pytest

import rules_in_time as rules
from played_in_time import Fleet, LastWords, Mifa, fedavg, play
from turnout import Local, World, simulate, strategies
from turnout.availability import markov
from turnout.paces import Buffered, Clocked, Rounds
from turnout.tasks.quadratics import Quadratics
from turnout.world import compute, durations, links

COUNT, TICKS = 8, 60
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
LEAVING = ("continue", "pause", "abort")


def falling(age):
    return 1.0 if age <= 2 else 1 / (0.5 * (age - 2) + 1)


STRATEGIES = {
    "fedavg": (strategies.FedAvg(), lambda: fedavg),
    "mifa": (strategies.MIFA(), Mifa),
    "last_word": (strategies.LastWord(), LastWords),
    "fedbuff": (strategies.FedBuff(), lambda: rules.fedbuff),
    "fedasync": (strategies.FedAsync(mixing=0.3), lambda: rules.fedasync(lambda age: (1 + age) ** -0.5)),
    "fedfix": (strategies.FedFix(), lambda: rules.fedfix),
    "ca2fl": (strategies.CA2FL(), rules.Ca2fl),
    "ace": (strategies.ACE(), rules.Ace),
    "aced": (strategies.ACE(newest_within=5), lambda: rules.Ace(within=5, divides=True)),
    "area": (strategies.AREA(), rules.Area),
    "fedstaleasync": (
        strategies.FedStaleAsync(fresh_slope=0.5, stale_slope=0.5, within=2.0),
        lambda: rules.FedStaleAsync(falling, lambda age: 0.5 * falling(age)),
    ),
    "delay_adaptive": (strategies.DelayAdaptive(), rules.DelayAdaptive),
    "fair_choice": (strategies.FairChoice(), rules.FairChoice),
}
USUAL = (("fair_choice", "capped", "pause"), ("fedbuff", "deadline", "continue"))


def scene(seed, leaving):
    """A random fleet, and the world that it lives in."""
    draw = np.random.default_rng(seed)
    importance = draw.uniform(1.0, 2.0, COUNT)
    fleet = Fleet(draw.normal(size=(COUNT, 3)), draw.uniform(0.5, 1.5, COUNT), importance)
    away = markov(COUNT, pi=draw.uniform(0.3, 0.95, COUNT).tolist(), lam=float(draw.uniform(0.0, 0.6)))
    slow = durations.lognormal(COUNT, median=draw.uniform(1, 7, COUNT).tolist(), sigma=0.5, most=12.0, leaving=leaving)
    steps = compute.per_client(COUNT, draw.integers(1, 5, COUNT).tolist())
    return fleet, World(away, links.bernoulli(COUNT, 0.8), steps, slow)


def rate(version):
    return 0.08 / (1.0 + 0.05 * jnp.asarray(version, jnp.float32))


def cases():
    """All of them; without a marker only two that no other test has."""
    for name in STRATEGIES:
        for pace in PACES:
            for leaving in LEAVING:
                usual = (name, pace, leaving) in USUAL
                yield pytest.param(name, pace, leaving, marks=() if usual else pytest.mark.slow)


@pytest.mark.parametrize(("name", "pace", "leaving"), list(cases()))
def test_as_plain_loops(name, pace, leaving):
    strategy, twin = STRATEGIES[name]
    seed = [*STRATEGIES].index(name) * 100 + [*PACES].index(pace) * 10 + LEAVING.index(leaving)
    fleet, world = scene(seed, leaving)
    task = Quadratics.of(fleet.centres, fleet.curvature, importance=fleet.importance.tolist(), start=np.ones(3))
    local = Local(learning_rate=rate, batch_size=1)
    run = simulate(task, world, strategy, rounds=TICKS, local=local, pace=PACES[pace])
    plain = play(world, fleet, PACES[pace], twin(), TICKS, rate)
    assert run.records["server_steps"].sum() == plain.versions > 0
    np.testing.assert_array_equal(run.clients["used"][0], plain.used)
    assert plain.used.sum() > 0
    np.testing.assert_allclose(run.params[0], plain.model, rtol=1e-5, atol=1e-5)
