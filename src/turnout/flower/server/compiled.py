"""The server's round as compiled functions, between which real clients work."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout.server.places import renew as renew_rows
from turnout.server.places import take_back as take_word_back
from turnout.server.places import vacate
from turnout.server.server import Closed, Server, ServerState
from turnout.server.tally import Tally
from turnout.simulator.client_optimizer import Local
from turnout.streams import Stream, client_seeds, round_key
from turnout.types import Answer, Array, Cohort, Params, PyTree, Reports, View


class Opening(eqx.Module):
    """What a round is opened with, besides the state."""

    server: Server
    local: Local
    t: Array
    available: Array  # one entry per place
    losses: Array | None  # answers to a probe, one entry per place
    root: Array  # of all keys


class Opened(eqx.Module):
    """A round that was opened."""

    view: View
    cohort: Cohort
    state: ServerState
    seeds: Array  # for local work, one entry per slot
    upload_seeds: Array  # for transforms of updates, one entry per slot
    rate: Array  # η
    shared: PyTree  # what every client is sent besides the model, None if nothing


class Arrivals(eqx.Module):
    """What arrived in a round, one row per slot; exactly zero where nothing did."""

    updates: Params
    losses: Array
    reach: Array
    came: Array
    age: Array  # rounds since it was asked for
    lr: Array  # η of that round, where it is not this one
    second: Params | None = None  # the second vector of each answer, where clients send one
    numbers: Array | None = None  # the numbers beside the vector of each answer, likewise


class ClosedRound(eqx.Module):
    """The state after a round, and whether it is valid."""

    closed: Closed
    cohort: Cohort
    steady: Array  # whether everything is still finite


class Renewal(eqx.Module):
    """Places that other clients take or leave, and what they need besides the state."""

    server: Server  # of the fleet as it is now
    tally: Tally
    t: Array
    places: Array  # a mask
    left: bool  # whether clients have left them, rather than joined


# In `open_round` and `renew` the state is donated, else gigabytes of memory would be copied.


@eqx.filter_jit(donate="all-except-first")
def open_round(opening: Opening, state: ServerState) -> Opened:
    """Select clients for a round; the state is donated."""
    server, t, root = opening.server, opening.t, opening.root
    rate = jnp.asarray(opening.local.rate(t), jnp.float32)
    view = server.view(state, t, opening.available, rate, None, opening.losses)
    cohort, state = server.ask(state, view, root)
    seeds, upload_seeds = (_draw_seeds(root, stream, t, cohort.ids) for stream in (Stream.TRAIN, Stream.UPLOAD))
    return Opened(view, cohort, state, seeds, upload_seeds, rate, server.strategy.shared(state.strategy, view))


@eqx.filter_jit
def starts(server: Server, state: ServerState, places: Array) -> Params:
    """The models from which the clients at these places start, one row per client."""
    return jax.vmap(lambda place: server.strategy.start(state.strategy, state.params, place))(places)


@eqx.filter_jit
def probe_seeds(root: Array, t: Array, places: Array) -> Array:
    return _draw_seeds(root, Stream.PROBE, t, places)


@eqx.filter_jit
def admit(server: Server, state: ServerState, view: View, cohort: Cohort, norms: Array, root: Array) -> Cohort:
    return server.admit(state, view, cohort, norms, root)


@eqx.filter_jit
def close(
    server: Server, state: ServerState, view: View, cohort: Cohort, tally: Tally, arrivals: Arrivals
) -> ClosedRound:
    """Close the round; the state is not donated, for it is kept if the next one is not finite."""
    late = arrivals.age > 0  # what it says is about its start
    lr = jnp.where(late, arrivals.lr, cohort.lr)
    cohort = replace(cohort, arrived=cohort.uploading & arrivals.came, lr=lr, age=arrivals.age, waited=arrivals.age)
    reports = Reports(arrivals.updates, arrivals.losses, arrivals.reach, arrivals.second, numbers=arrivals.numbers)
    closed = server.close(state, view, cohort, reports, tally)
    floats = [leaf for leaf in jax.tree.leaves(closed.state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    steady = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in floats]))
    return ClosedRound(closed, cohort, steady)


@eqx.filter_jit(donate="all-except-first")
def renew(renewal: Renewal, state: ServerState) -> tuple[ServerState, Tally]:
    """State and sums in which these places are as before a client's first round; the state is donated."""
    server, places = renewal.server, renewal.places
    state = vacate(server, state, places) if renewal.left else renew_rows(server, state, places)
    return state, renewal.tally.renew(renewal.t, places)


@eqx.filter_jit
def take_back(server: Server, state: ServerState, place: Array, said: Answer) -> ServerState:
    """State after the goodbye of the client at this place."""
    return take_word_back(server, state, place, said)


@eqx.filter_jit
def model(server: Server, state: ServerState) -> Params:
    return server.model(state)


def compile_close(*arguments: Any) -> Future:
    """Begin to compile `close` for arguments of these shapes, in a thread of its own."""
    thread = ThreadPoolExecutor(1)
    compiling = thread.submit(lambda: close.lower(*arguments).compile())
    thread.shutdown(wait=False)
    return compiling


def _draw_seeds(root: Array, stream: Stream, t: Array, clients: Array) -> Array:
    """32 random bits per client."""
    return client_seeds(round_key(root, stream, t), clients)
