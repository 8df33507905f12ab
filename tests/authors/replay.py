"""Plays the rounds that an author's code has played: the same clients, data, absences and rates."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.server.server import Server
from turnout.server.tally import Tally
from turnout.strategies.client_side import ClientSide
from turnout.types import Answer, Fleet, Known, Reports, Work

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
        """Change of the model by a client's plain local work."""
        return self.work(client, start, rate)[0]

    def work(self, client, start, rate, push=0.0, pull=0.0):
        """Change of the model by a client's local work, and the mean and the last of its raw gradients."""
        inputs, labels = self.data[client]
        model, gradients = np.asarray(start, float), []
        for _ in range(self.steps):
            shaped = model.reshape(self.start.shape)
            surplus = probabilities(shaped, inputs) - np.eye(len(shaped))[labels]
            gradients.append((surplus.T @ inputs / len(labels) + self.decay * shaped).ravel())
            model = model - rate * self.stretch[client] * (gradients[-1] + push + pull * (model - start))
        return model - start, np.mean(gradients, axis=0), gradients[-1]

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
        self.side = strategy.client_side or ClientSide()
        self.kept = [self.side.init(self.state.params) for _ in range(count)]
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
        download = self.server.download(state, view, cohort)
        vectors = np.zeros((2 if self.side.sends_second else 1, *download.model.shape), np.float32)
        for slot in np.flatnonzero(cohort.uploading):
            answer = self._train(cohort, download, slot, t, rate * float(cohort.scale[slot]))
            vectors[:, slot] = jax.tree.leaves(answer)
        ones = jnp.ones(vectors.shape[1])
        reports = Reports.of(cohort, Answer(*jnp.asarray(vectors)), ones, ones * self.clients.steps)
        closed = self.server.close(state, view, cohort, reports, self.tally)
        self.state, self.tally = closed.state, closed.tally
        self.models.append(np.asarray(self.state.params))
        self.shipped.append(np.asarray(self.server.model(self.state)))
        self.asked.append(np.asarray(cohort.asked))
        self.weights.append(np.asarray(cohort.put(closed.weight)))
        self.scales.append(np.asarray(cohort.put(cohort.scale)))

    def _train(self, cohort, download, slot, t, rate):
        """What a client sends; it keeps what its side wants, since no upload is lost."""
        client, own = int(cohort.ids[slot]), jax.tree.map(lambda rows: rows[slot], download)
        side, kept = self.side, self.kept[client]
        push = side.push(kept, own.shared)
        steering = 0.0 if push is None else np.asarray(push, float), 0.0 if side.pull is None else float(side.pull)
        update, mean, last = (
            jnp.asarray(rows, jnp.float32) for rows in self.clients.work(client, np.asarray(own.model), rate, *steering)
        )
        numbers = (jnp.asarray(number, jnp.float32) for number in (cohort.lr[slot], self.clients.steps, t))
        work = Work(update, *numbers, own.shared, mean, last)
        answer = side.say(kept, work)
        self.kept[client] = side.keep(kept, work, answer)
        return answer


def apart(models, others):
    """Largest difference of two models, round by round."""
    return np.abs(models - others).max(axis=1)
