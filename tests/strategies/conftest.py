from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.server.server import Server
from turnout.types import Fleet, Known, Reports


class Play:
    """A server and its clients by hand: the model is one number, and each client's update is given."""

    def __init__(self, strategy, importance=(1.0, 1.0, 1.0), start=0.0, lr=0.1, root=0, **known):
        count = len(importance)
        defaults = {"pi": [0.5] * count, "lam": [0.0] * count, "success": [1.0] * count, "reach": [1.0] * count}
        self.known = Known(**{name: jnp.asarray(known.get(name, value)) for name, value in defaults.items()})
        fleet = Fleet(jnp.asarray(importance, jnp.float32))
        self.server = Server.of(fleet, strategy, slots=max(1, strategy.capacity(count)))
        strategy.check(fleet)
        self.state = self.server.init(jnp.asarray([start]))
        self.lr, self.t, self.root = lr, 0, jr.key(root)
        self.cohort = None

    def round(self, available, updates, arrived=None, losses=None):
        """Play one round and return the model after it.

        `updates` are given by client, or as a function of the models from which they start, one by client.
        """
        mask = jnp.asarray(available, bool)
        told = None if losses is None else jnp.asarray(losses, jnp.float32)
        view = self.server.view(self.state, jnp.asarray(self.t), mask, self.lr, self.known, told)
        cohort, state = self.server.ask(self.state, view, self.root)
        if callable(updates):
            starts = jnp.zeros((len(mask), 1)).at[cohort.ids].set(self.server.start(state, cohort), mode="drop")
            updates = updates(np.asarray(starts[:, 0], np.float64))
        rows = cohort.take(jnp.asarray(updates, jnp.float32))[:, None]
        cohort = self.server.admit(state, view, cohort, jnp.abs(rows[:, 0]), self.root)
        came = jnp.ones_like(mask) if arrived is None else jnp.asarray(arrived, bool)
        self.cohort = replace(cohort, arrived=cohort.active & cohort.take(came))
        reports = Reports.arrived(self.cohort, rows, rows[:, 0], cohort.take(self.known.reach))
        self.state = self.server.tell(state, view, self.cohort, reports)
        self.t += 1
        return float(self.state.params[0])

    @property
    def asked(self):
        return np.asarray(self.cohort.asked)


@pytest.fixture
def play():
    return Play


class Weather:
    """Random rounds for a strategy and a naive reference to go through together, some of them empty."""

    importance = (0.5, 1.0, 2.0, 0.25, 1.5, 1.0)
    rounds = 50

    def __init__(self, seed=0):
        draw = np.random.default_rng(seed)
        shape = (self.rounds, len(self.importance))
        self.available = draw.random(shape) < draw.choice(
            [0.0, 0.2, 0.6, 1.0], (self.rounds, 1), p=[0.15, 0.35, 0.4, 0.1]
        )
        self.available[0] = False
        self.arrived = draw.random(shape) < 0.8
        self.centres = draw.normal(size=shape[1])
        self.noise = 0.3 * draw.normal(size=shape)
        self.lrs = 0.2 / np.sqrt(1.0 + np.arange(self.rounds))
        self.target = np.asarray(self.importance) / np.sum(self.importance)

    def pull(self, t, starts):
        """Updates of one noisy gradient step from each of the models."""
        return self.lrs[t] * (self.centres - starts + self.noise[t])

    def compare(self, game, naive):
        """Play all rounds: `naive(t, came)` must return the model that the server should have."""
        for t in range(self.rounds):
            game.lr = self.lrs[t]
            found = game.round(self.available[t], lambda starts, t=t: self.pull(t, starts), self.arrived[t])
            assert found == pytest.approx(naive(t, self.available[t] & self.arrived[t]), abs=2e-5), f"round {t}"


@pytest.fixture(params=[0, 1])
def weather(request):
    return Weather(request.param)
