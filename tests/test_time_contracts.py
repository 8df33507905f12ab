"""The contracts of durations and paces: ours keep them, and those that break them are told so."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.paces import Buffered, Clocked, Pace, Rounds
from turnout.testing import check_durations, check_pace
from turnout.types import PerClient, Scalar
from turnout.world.durations import Durations, drawn, fixed, lognormal, resampled, timed

OURS = {
    "fixed": fixed(4, [0, 1, 5, 2]),
    "drawn": drawn(6, 4.0, 1.0),
    "lognormal": lognormal(3, [0.5, 2.0, 9.0], [0.0, 0.5, 1.0], most=12.0),
    "timed": timed(3, 60.0, [10.0, 50.0, 1.0], download=20.0, upload=[0.0, 90.0, 0.0], sigma=[0.0, 0.3, 0.2]),
    "resampled": resampled(3, [[30.0, 400.0], [], [61.0]], 60.0),
}
PACES = [
    Rounds(),
    Rounds(quorum=0.5),
    Rounds(quorum=0.4, late="keep", concurrency=7),
    Rounds(deadline=3),
    Buffered(size=3),
    Buffered(size=3, concurrency=5),
    Clocked(every=4),
    Clocked(concurrency=2),
]


@pytest.mark.parametrize("name", OURS)
def test_our_durations_keep_the_contract(name):
    check_durations(OURS[name])


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_our_paces_keep_the_contract(pace):
    check_pace(pace)


class Coin(Durations):
    """Zero ticks or two, as a coin falls."""

    chance: PerClient  # of two
    stated: float = 0.5

    def step(self, t, steps, key):
        return 2 * jr.bernoulli(key, self.chance).astype(jnp.int32)

    def law(self, steps):
        two = np.full(self.num_clients, self.stated)
        return np.stack([1 - two, np.zeros_like(two), two], axis=1)

    @property
    def shortest(self):
        return 0

    @property
    def num_clients(self):
        return self.chance.shape[0]


class Backwards(Coin):
    def step(self, t, steps, key):
        return super().step(t, steps, key) - 1


class Halves(Coin):
    def step(self, t, steps, key):
        return super().step(t, steps, key) / 2


class Hasty(Coin):
    @property
    def shortest(self):
        return 1


@pytest.mark.parametrize(
    ("law", "why"),
    [
        (Coin(jnp.array([0.5, 0.9])), "client 1 is stated to need at most 0 ticks"),
        (Backwards(jnp.array([0.5])), "0 ticks beyond the first, not -1"),
        (Halves(jnp.array([0.5])), "whole numbers"),
        (Hasty(jnp.array([0.5])), "shortest is stated as 1"),
    ],
)
def test_durations_that_break_the_contract_are_told_so(law, why):
    check_durations(Coin(jnp.array([0.5, 0.5])))
    with pytest.raises(AssertionError, match=why):
        check_durations(law)


class Patient(Pace):
    """Steps at every arrival, with as many at work as `room` has."""

    room: Scalar = 4

    def openings(self, state, at_work, num_clients):
        return jnp.maximum(jnp.asarray(self.room, jnp.int32) - at_work, 0)

    def due(self, state, tick, traffic):
        return traffic.arrived > 0

    @property
    def is_bounded(self):
        return True


class Unbounded(Patient):
    @property
    def is_bounded(self):
        return False


class Greedy(Patient):
    concurrency: Scalar = 2


class Tired(Patient):
    def due(self, state, tick, traffic):
        return (traffic.arrived > 0) & (state.version < 5)


class Never(Patient):
    def due(self, state, tick, traffic):
        return jnp.asarray(False)


class Twice(Patient):
    def due(self, state, tick, traffic):
        return traffic.arrived


@pytest.mark.parametrize(
    ("pace", "why"),
    [
        (Unbounded(), "is_bounded must be true"),
        (Greedy(), "exceed 2"),
        (Tired(), "does not step after tick"),
        (Never(), "never steps"),
        (Twice(), "one truth value"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_paces_that_break_the_contract_are_told_so(pace, why):
    check_pace(Patient())
    with pytest.raises(AssertionError, match=why):
        check_pace(pace)


def test_a_static_field_of_a_pace_is_allowed():
    class Named(Patient):
        name: str = eqx.field(static=True, default="mine")

    check_pace(Named())
