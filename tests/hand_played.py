"""A server and its clients by hand, one round at a time."""

from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.types import Answer, Fleet, Known, Reports


class Play:
    """A server and its clients by hand: the model is one number, and each client's update is given."""

    def __init__(self, strategy, importance=(1.0, 1.0, 1.0), start=0.0, lr=0.1, root=0, rest=None, **known):
        count = len(importance)
        defaults = {"pi": [0.5] * count, "lam": [0.0] * count, "success": [1.0] * count, "reach": [1.0] * count}
        self.known = Known(**{name: jnp.asarray(known.get(name, value)) for name, value in defaults.items()})
        fleet = Fleet(jnp.asarray(importance, jnp.float32))
        slots = max(1, strategy.capacity(count))
        self.server = Server.of(fleet, strategy, ServerSettings(rest=rest), slots)
        strategy.check(fleet)
        self.state = self.server.init(jnp.asarray([start]))
        self.lr, self.t, self.root = lr, 0, jr.key(root)
        self.cohort = None

    def round(self, available, updates, arrived=None, losses=None, **old):
        """Play one round and return the model after it.

        `updates` are given by client, or as a function of the models from which they start, one by client, and
        `seconds`, the second vectors of answers, likewise. Of updates that were asked for earlier, the `ages`, `rates`
        and `starts` are given by client, and K as `goal`.
        """
        mask = jnp.asarray(available, bool)
        told = None if losses is None else jnp.asarray(losses, jnp.float32)
        view = self.server.view(self.state, jnp.asarray(self.t), mask, self.lr, self.known, told)
        view = replace(view, goal=old.get("goal"))
        cohort, state = self.server.ask(self.state, view, self.root)
        if callable(updates):
            models = self.server.download(state, view, cohort).model
            starts = jnp.zeros((len(mask), 1)).at[cohort.ids].set(models, mode="drop")
            updates = updates(np.asarray(starts[:, 0], np.float64))
        rows = cohort.take(jnp.asarray(updates, jnp.float32))[:, None]
        cohort = self.server.admit(state, view, cohort, jnp.abs(rows[:, 0]), self.root)
        came = jnp.ones_like(mask) if arrived is None else jnp.asarray(arrived, bool)
        self.cohort = replace(cohort, arrived=cohort.uploading & cohort.take(came))
        for name, values in {"age": old.get("ages"), "lr": old.get("rates")}.items():
            if values is not None:
                self.cohort = replace(self.cohort, **{name: cohort.take(jnp.asarray(values, jnp.float32))})
        starts = None
        if "starts" in old:
            starts = cohort.take(jnp.asarray(old["starts"], jnp.float32))[:, None]
        second = None
        if "seconds" in old:
            second = cohort.take(jnp.asarray(old["seconds"], jnp.float32))[:, None]
        reach, keep_lost = cohort.take(self.known.reach), self.server.strategy.needs_lost
        reports = Reports.of(self.cohort, Answer(rows, second), rows[:, 0], reach, starts, keep_lost)
        tally = Tally.empty(self.cohort.num_clients)
        self.state = self.server.close(state, view, self.cohort, reports, tally).state
        self.t += 1
        return float(self.state.params[0])

    @property
    def asked(self):
        return np.asarray(self.cohort.asked)
