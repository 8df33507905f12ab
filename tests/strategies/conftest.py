from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.server import Server
from turnout.types import Fleet, Known, Reports


class Play:
    """A server and its clients by hand: the model is one number, and each client's update is given."""

    def __init__(self, strategy, importance=(1.0, 1.0, 1.0), start=0.0, lr=0.1, root=0, **known):
        count = len(importance)
        defaults = {"pi": [0.5] * count, "lam": [0.0] * count, "success": [1.0] * count, "reach": [1.0] * count}
        self.known = Known(**{name: jnp.asarray(known.get(name, value)) for name, value in defaults.items()})
        fleet = Fleet(jnp.asarray(importance, jnp.float32))
        self.server = Server(fleet, strategy, slots=max(1, strategy.capacity(count)))
        strategy.check(fleet)
        self.state = self.server.init(jnp.asarray([start]))
        self.lr, self.t, self.root = lr, 0, jr.key(root)
        self.cohort = None

    def round(self, available, updates, arrived=None, losses=None):
        """Play one round and return the model after it."""
        mask = jnp.asarray(available, bool)
        told = None if losses is None else jnp.asarray(losses, jnp.float32)
        view = self.server.view(self.state, jnp.asarray(self.t), mask, self.lr, self.known, told)
        cohort, state = self.server.ask(self.state, view, self.root)
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
