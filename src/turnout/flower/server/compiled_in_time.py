"""The server's half of a tick as compiled functions: who is asked now, and a step with what has arrived.

They call the same pure methods as `simulator/tick.py`, in the same order.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout.flower.server.compiled import Opened
from turnout.server.server import Server, ServerState
from turnout.server.tally import Tally
from turnout.simulator.client_optimizer import Local
from turnout.streams import Stream, client_seeds, round_key
from turnout.types import Answer, Array, Cohort, Mask, Params, PerClient, PyTree, Reports, View


class Moment(eqx.Module):
    """When the server acts, and what its pace says."""

    server: Server
    local: Local
    t: Array  # steps so far
    tick: Array
    available: Mask  # one entry per place
    goal: Array | None  # K, the updates that a step waits for

    def view(self, state: ServerState) -> View:
        rate = jnp.asarray(self.local.rate(self.t), jnp.float32)
        return replace(self.server.view(state, self.t, self.available, rate), tick=self.tick, goal=self.goal)


class Used(eqx.Module):
    """What a step uses, one row per slot, by place; an empty slot has the place after the last."""

    ids: Array
    copies: Array
    weight: Array
    scale: Array
    lr: Array
    age: Array
    waited: Array
    arrived: Mask
    losses: Array
    reach: Array
    updates: Params
    second: Params | None = None
    starts: Params | None = None
    numbers: Array | None = None  # those beside the vector of each answer, where clients send some

    def cohort(self, num_clients: int) -> Cohort:
        return Cohort(
            ids=self.ids,
            uploading=self.ids < num_clients,
            copies=self.copies,
            weight=self.weight,
            scale=self.scale,
            arrived=self.arrived,
            overflow=jnp.zeros((), jnp.int32),
            lr=self.lr,
            age=self.age,
            waited=self.waited,
            num_clients=num_clients,
        )


class SinceStep(eqx.Module):
    """Who was there, asked and heard since the last step, one entry per place; and of which version each answer is."""

    available: Mask
    asked: Mask
    versions: Array


class Stepped(eqx.Module):
    state: ServerState
    tally: Tally
    weight: Array  # of each update, one entry per slot
    steady: Array  # whether everything is still finite


# The state is donated, as in `compiled`.
@eqx.filter_jit(donate="all-except-first")
def ask(question: tuple[Moment, Array, Array | None], state: ServerState) -> Opened:
    """Select clients now; `question` has the root of all keys, and how many clients may be asked."""
    moment, root, openings = question
    view = moment.view(state)
    cohort, state = moment.server.ask(state, view, root, openings)
    seeds, upload_seeds = (
        client_seeds(round_key(root, stream, view.now), cohort.ids) for stream in (Stream.TRAIN, Stream.UPLOAD)
    )
    shared = moment.server.strategy.shared(state.strategy, view)
    rate = jnp.asarray(view.lr, jnp.float32)
    return Opened(view, cohort, state, seeds, upload_seeds, rate, shared)


@eqx.filter_jit
def step(moment: Moment, state: ServerState, tally: Tally, used: Used, roll: SinceStep) -> Stepped:
    """The server's step; the state is not donated, for it is kept if the next one is not finite."""
    cohort = used.cohort(moment.server.fleet.num_clients)
    reports = Reports.of(cohort, Answer(used.updates, used.second, used.numbers), used.losses, used.reach, used.starts)
    after, weight = moment.server.step(state, moment.view(state), cohort, reports)
    floats = [leaf for leaf in jax.tree.leaves(after) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    steady = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in floats]))
    tally = tally.add(roll.versions, roll.available, roll.asked, cohort.mask).weigh(cohort, weight)
    return Stepped(after, tally, weight, steady)


class Sighting(eqx.Module):
    """What the server has seen of its clients since it last looked, one entry per place."""

    available: Mask
    watched: Mask
    listed: Mask
    span: Array  # in usual looks
    ended: Mask  # whose work has ended
    arrived: Mask
    reach: PerClient


@eqx.filter_jit
def observe(server: Server, facts: PyTree, t: Array, look: Sighting) -> PyTree:
    """What the server knows after one more look."""
    places, none = jnp.arange(look.ended.shape[0]), jnp.zeros(look.ended.shape)
    ids = jnp.where(look.ended, places, look.ended.shape[0])
    used = Used(ids, *[none] * 6, arrived=look.arrived, losses=none, reach=look.reach, updates={})
    known = server.facts.read(facts, None)
    view = View(t, server.fleet.importance, look.available, known, jnp.zeros(()), None, slots=server.slots)
    view = replace(view, watched=look.watched, listed=look.listed, span=look.span, members=server.fleet.members)
    reports = Reports({}, none, jnp.where(look.arrived, look.reach, 0.0))
    return server.facts.observe(facts, view, used.cohort(look.ended.shape[0]), reports)
