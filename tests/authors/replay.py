"""Plays the rounds that an author's code has played: the same clients, data, absences and rates."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.server.server import Server
from turnout.server.tally import Tally
from turnout.types import Answer, Fleet, Known, Reports

FOLDER = Path(__file__).parent


def stored(name):
    """The arrays of one file in this folder."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)


def by_owner(inputs, labels, owners):
    """Inputs and labels of each client."""
    rows = [owners == client for client in range(owners.max() + 1)]
    return [(inputs[owned].astype(float), labels[owned]) for owned in rows]


def probabilities(model, inputs):
    scores = inputs @ model.T
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


class Clients:
    """Softmax regression with full batches, trained in double precision; a model has one row per class, and is flat."""

    def __init__(self, steps, data=None, start=None, decay=0.0, probed=None, stretch=None):
        task = stored("task")
        self.data = by_owner(task["inputs"], task["labels"], task["owners"]) if data is None else data
        self.start = task["start"] if start is None else start
        self.steps, self.decay = steps, decay
        self.probed = probed  # data on which a loss is reported
        self.stretch = np.ones(len(self.data)) if stretch is None else stretch  # factor of each client's rate

    @property
    def sizes(self):
        return np.array([len(labels) for _, labels in self.data])

    def update(self, client, start, rate):
        """Change of the model by a client's local work."""
        inputs, labels = self.data[client]
        model = np.asarray(start, float).reshape(self.start.shape)
        for _ in range(self.steps):
            surplus = probabilities(model, inputs) - np.eye(len(model))[labels]
            model = model - rate * self.stretch[client] * (surplus.T @ inputs / len(labels) + self.decay * model)
        return model.ravel() - start

    def losses(self, params):
        """Cross-entropy of the server's model at each client."""
        model = np.asarray(params, float).reshape(self.start.shape)
        odds = [probabilities(model, inputs)[np.arange(len(labels)), labels] for inputs, labels in self.probed]
        return np.array([-np.log(odd).mean() for odd in odds], np.float32)


class Replay:
    """A server of turnout; after every round its model, the model to ship, and each client's weight and step scale."""

    def __init__(self, strategy, clients, importance=None, settings=None, **known):
        count = len(clients.data)
        self.clients = clients
        fleet = Fleet(jnp.asarray(np.ones(count) if importance is None else importance, jnp.float32))
        facts = {
            "pi": np.ones(count),
            "lam": np.zeros(count),
            "success": np.ones(count),
            "reach": np.ones(count),
        } | known
        self.known = Known(**{name: jnp.asarray(values, jnp.float32) for name, values in facts.items()})
        self.server = Server.of(fleet, strategy, settings, slots=count)
        self.server.settings.check(strategy)
        self.state = self.server.init(jnp.asarray(clients.start.ravel()))
        self.tally = Tally.empty(count)
        self.models, self.shipped = [np.asarray(self.state.params)], [np.asarray(self.server.model(self.state))]
        self.asked, self.weights, self.scales = [], [], []

    def play(self, came, rates, rates_told=None):
        """Play one round per row of `came`; the server is told the clients' rates, unless others are given."""
        rates_told = rates if rates_told is None else rates_told
        for t, present in enumerate(came):
            self._round(t, jnp.asarray(present), float(rates[t]), float(rates_told[t]))
        for name in ("models", "shipped", "asked", "weights", "scales"):
            setattr(self, name, np.stack(getattr(self, name)))
        return self

    def _round(self, t, available, rate, rate_told):
        needed = self.server.strategy.needs_losses
        losses = jnp.where(available, self.clients.losses(self.state.params), 0.0) if needed else None
        view = self.server.view(self.state, jnp.asarray(t), available, rate_told, self.known, losses)
        cohort, state = self.server.ask(self.state, view, jr.key(0))
        cohort = replace(cohort, arrived=cohort.uploading)
        starts, scales = np.asarray(self.server.download(state, view, cohort).model), np.asarray(cohort.scale)
        updates = np.zeros(starts.shape, np.float32)
        for slot in np.flatnonzero(cohort.uploading):
            updates[slot] = self.clients.update(int(cohort.ids[slot]), starts[slot], rate * float(scales[slot]))
        ones = jnp.ones(len(starts))
        reports = Reports.of(cohort, Answer(jnp.asarray(updates)), ones, ones)
        closed = self.server.close(state, view, cohort, reports, self.tally)
        self.state, self.tally = closed.state, closed.tally
        self.models.append(np.asarray(self.state.params))
        self.shipped.append(np.asarray(self.server.model(self.state)))
        self.asked.append(np.asarray(cohort.asked))
        self.weights.append(np.asarray(cohort.put(closed.weight)))
        self.scales.append(np.asarray(cohort.put(cohort.scale)))


def apart(models, others):
    """Largest difference of two models, round by round."""
    return np.abs(models - others).max(axis=1)
