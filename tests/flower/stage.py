"""A small fleet of quadratics that differs in everything, for the simulator and for numpy clients alike."""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout import simulate_trials, tasks
from turnout.availability import markov
from turnout.server.facts import Online
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.simulator.local_training import Jobs, draw_batches, probe_losses, train_locally
from turnout.simulator.minibatches import drawn, noise
from turnout.simulator.trial import Trial
from turnout.uploads import Plain
from turnout.world import World, compute, links

NUM_CLIENTS = 7
ROUNDS = 20
NAMES = tuple(f"id:{number}" for number in range(NUM_CLIENTS))


def _task():
    draw = np.random.default_rng(5)
    return tasks.Quadratics.of(
        centres=draw.normal(size=(NUM_CLIENTS, 3)),
        curvature=draw.uniform(0.5, 1.5, NUM_CLIENTS),
        offsets=draw.normal(size=(8, 3)),
        importance=list(draw.uniform(0.5, 2.0, NUM_CLIENTS)),
        start=np.ones(3),
    )


def _world(success):
    pi, lam = np.linspace(0.15, 0.75, NUM_CLIENTS), np.linspace(0.0, 0.6, NUM_CLIENTS)
    return World(
        markov(NUM_CLIENTS, pi=pi.tolist(), lam=lam.tolist()),
        links.bernoulli(NUM_CLIENTS, success),
        compute.per_client(NUM_CLIENTS, (1 + np.arange(NUM_CLIENTS) % 4).tolist()),
    )


TASK = _task()
LOCAL = Local(learning_rate=lambda t: 0.2 / (1.0 + 0.1 * jnp.asarray(t, jnp.float32)), batch_size=2)
WORLDS = {"lossy": _world(np.linspace(0.6, 1.0, NUM_CLIENTS).tolist()), "sure": _world([1.0] * NUM_CLIENTS)}
START = {"x": np.asarray(TASK.start)}
IMPORTANCE = dict(zip(NAMES, (float(worth) for worth in TASK.importance), strict=True))


def simulated(strategy, world, rounds=ROUNDS, uploads=None):
    """The final model of the compiled simulator."""
    trial = Trial(strategy, WORLDS[world], LOCAL, ServerSettings(facts=Online()), uploads or Plain())
    (history,) = simulate_trials(TASK, [trial], rounds=rounds)
    return np.asarray(history.params[0])


@lru_cache
def natures(world, rounds=ROUNDS):
    """Who is there, whose upload arrives and how many steps each does, round by round."""
    place = WORLDS[world]
    step, state, found = eqx.filter_jit(place.step), place.init(jr.key(0)), []
    for t in range(rounds):
        state, nature = step(state, jr.key(0), jnp.asarray(t, jnp.int32))
        found.append(tuple(np.asarray(part) for part in (nature.available, nature.delivers, nature.steps)))
    return found


@eqx.filter_jit
def _work(start, place, steps, rate, seed):
    jobs = Jobs(place[None], seed[None], steps[None], rate[None])
    trained = train_locally(LOCAL, TASK, start[None], jobs, steps, masked=False)
    return start + trained.updates[0], trained.losses[0]


@eqx.filter_jit
def _probe(params, place, seed):
    return probe_losses(LOCAL, TASK, params, place[None], seed[None])[0]


def work(place, start, steps, rate, seed):
    """The model after so many local steps of one client, and the mean loss met."""
    whole, word = (jnp.asarray(value, jnp.int32) for value in (place, steps)), jnp.asarray(seed, jnp.uint32)
    end, loss = _work(jnp.asarray(start), *whole, jnp.asarray(rate, jnp.float32), word)
    return np.asarray(end), float(loss)


@eqx.filter_jit
def _gradient(params, place, seed, s):
    batch, present = jax.tree.map(lambda rows: rows[0], draw_batches(LOCAL, TASK, drawn, place[None], seed[None], s))
    return jax.value_and_grad(TASK.training_loss)(params, batch, present, noise(seed, s))


def gradient(place, params, seed, s):
    """The loss and the raw gradient of step s of one client, at this model."""
    where, step = (jnp.asarray(value, jnp.int32) for value in (place, s))
    loss, found = _gradient(jnp.asarray(params), where, jnp.asarray(seed, jnp.uint32), step)
    return float(loss), np.asarray(found)


def probe(place, params, seed):
    """Loss of a model on one batch of a client."""
    return float(_probe(jnp.asarray(params), jnp.asarray(place, jnp.int32), jnp.asarray(seed, jnp.uint32)))
