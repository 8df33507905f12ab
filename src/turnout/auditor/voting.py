"""A whole run without data: clients vote instead of training, and the final model says how much each vote counted.

The model is one number. Instead of an update, client k sends its vote v_k, times the reach of its work and its step
length. Whatever a server does to updates (weighing, averaging, remembering) is linear in them, so the model is

    x = Σ_k Ω_k v_k,      Ω_k = ∂x / ∂v_k,

and one backward pass through the server's own code gives the actual weight Ω_k of every client. Values of updates and
losses are unknown without training: where a strategy uses them, all clients have the same.
"""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from turnout.metrics import OVERFLOW
from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.simulator import loop
from turnout.simulator.ages import Ages
from turnout.simulator.batching import check_overflow, crowd_sizes
from turnout.simulator.carry import Carry
from turnout.simulator.client_optimizer import Local
from turnout.simulator.clients import Voters
from turnout.simulator.lane import Lane
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.side_by_side import num_workers, round_up
from turnout.simulator.simulate import check_seeds
from turnout.simulator.tick import begin_time
from turnout.simulator.trial import Trial, as_arrays
from turnout.types import Fleet, Law, Params, PerClient, RandomKey, RandomKeys
from turnout.uploads import Plain

SEGMENTS = 25  # of a run, each with its own votes, to show how much the weights vary
BURN_IN = 5  # segments in which strategies learn their estimates; the model is measured from then on
_MAX_RESIDUALS = 2**26  # numbers that a backward pass may keep; with more, segments are played a second time


class Votes(eqx.Module):
    """The outcome of a run: one row per lane."""

    counted: Float[Array, "... segments clients"] | None  # effect of a segment's votes after the burn-in, if asked for
    moves: Float[Array, "... rounds"]  # the model's step if all vote one: total weight times reach and learning rate
    staleness: Float[Array, "... rounds"]  # rounds since a client's last arrival, weighted by the target
    records: dict[str, Float[Array, "... rounds"]]
    clients: dict[str, Shaped[Array, "... clients"]]
    ages: Ages | None  # of the updates that were used, where work takes time


class _Written(NamedTuple):
    """What is written of a round, or of all rounds of a segment."""

    records: dict[str, Array]
    move: Array
    staleness: Array


def play_trials(
    fleet: Fleet,
    trials: Sequence[Trial],
    *,
    rounds: int,
    seeds: int | Sequence[int],
    count: bool = True,
    report: Callable[[int], None] | None = None,
) -> list[Votes]:
    """Votes of every trial over `rounds` rounds, rounded up to whole segments; on a CPU several trials at a time.

    The server's learning rate, its optimizer and a projection are left out. Without `count` there is no backward pass.
    `report` is called with the number of trials done.
    """
    roots = jax.vmap(jr.key)(jnp.asarray(check_seeds(seeds), jnp.uint32))
    length = -(-rounds // SEGMENTS)
    plain = [as_arrays(_leave_out_server_step(trial)) for trial in trials]
    plans = _plans(fleet, trials, plain, roots, length * SEGMENTS)
    done = itertools.count(1)

    def play(trial: Trial, plan: Plan) -> Votes:
        votes = jax.tree.map(np.asarray, _play_lanes(fleet, trial, trial.world.law(), plan, roots, length, count))
        if report is not None:
            report(next(done))
        check_overflow(votes.records[OVERFLOW])
        return votes

    with ThreadPoolExecutor(num_workers()) as pool:
        return list(pool.map(play, plain, plans))


def _leave_out_server_step(trial: Trial) -> Trial:
    """The trial with no step of the server's own and updates that arrive as they were made.

    A vote is one number: what clipping, rounding or leaving out entries does to it says nothing about models. What
    clients remember for a strategy stays.
    """
    return replace(trial, server=ServerSettings(facts=trial.facts, rest=trial.server.rest), uploads=Plain())


def local_rates(local: Local, rounds: int) -> np.ndarray:
    """The clients' learning rate in every round."""
    rate = local.learning_rate
    return np.array([float(rate(t)) for t in range(rounds)]) if callable(rate) else np.full(rounds, float(rate))


def _plans(fleet: Fleet, trials: Sequence[Trial], plain: list[Trial], roots: RandomKeys, rounds: int) -> list[Plan]:
    """The plan of each trial. Every different world is played once, to count its largest crowd."""
    crowds: dict[int, int] = {}
    plans = []
    for trial, arrays in zip(trials, plain, strict=True):
        world = id(trial.world)
        if world not in crowds:
            crowds[world] = crowd_sizes([arrays.world], roots, rounds)[0]
        slots = min(fleet.num_clients, round_up(trial.strategy.capacity(crowds[world])))
        closing = places = 0
        if trial.timed:
            slots = closing = places = fleet.num_clients
        plans.append(
            Plan(
                slots=slots,
                most_available=fleet.num_clients,
                common_steps=None,
                most_steps=trial.world.compute.most,
                chunk=slots,
                places=places,
                closing=closing,
            )
        )
    return plans


@eqx.filter_jit
def _play_lanes(
    fleet: Fleet, trial: Trial, law: Law | None, plan: Plan, roots: RandomKeys, length: int, count: bool
) -> Votes:
    """Segments of `length` rounds, one lane per root key."""
    nothing = RecordPlan(evaluations=0, rounds=0, metrics=None)

    def play(root: RandomKey) -> Votes:
        return _play(fleet, Lane(None, None, trial, law, root, plan, nothing), length, count)

    return jax.vmap(play)(roots)


def _play(fleet: Fleet, lane: Lane, length: int, count: bool) -> Votes:
    trial, target = lane.trial, fleet.target
    server = trial.make_server(fleet, lane.plan.slots)

    def one_round(votes: PerClient, carry: Carry, t: Int[Array, ""]) -> tuple[Carry, _Written]:
        now, record = loop.play_round(Voters(fleet.importance, votes), lane, t, carry)
        age = (t - now.tally.last).astype(target.dtype)
        move = server.model(now.server) - server.model(carry.server)
        record = {name: record[name] for name in loop.recorded(trial)}
        return now, _Written(record, jax.lax.stop_gradient(move), jnp.sum(target * age))

    def one_segment(carry: Carry, segment: tuple[Array, PerClient]) -> tuple[Carry, tuple[Params, _Written]]:
        number, votes = segment
        rounds = number * length + jnp.arange(length)
        carry, written = jax.lax.scan(lambda now, t: one_round(votes, now, t), carry, rounds)
        return carry, (server.model(carry.server), written)

    def model(votes: Float[Array, "segments clients"]) -> tuple[Array, tuple[Carry, _Written]]:
        begin = _begin(fleet, lane, server)
        numbers = jnp.arange(SEGMENTS, dtype=jnp.int32)
        residuals = SEGMENTS * length * lane.plan.slots
        segment = one_segment if residuals <= _MAX_RESIDUALS else jax.checkpoint(one_segment)
        carry, (models, written) = jax.lax.scan(segment, begin, (numbers, votes))
        return models[-1] - models[BURN_IN - 1], (carry, written)

    ones = jnp.ones((SEGMENTS, fleet.num_clients))
    if count:
        _, backward, (carry, written) = jax.vjp(model, ones, has_aux=True)
        (counted,) = backward(jnp.ones(()))
    else:
        counted, (_, (carry, written)) = None, model(ones)
    records, moves, staleness = jax.tree.map(lambda leaf: leaf.reshape(-1), written)
    ages = None if carry.time is None else carry.time.ages
    return Votes(counted, moves, staleness, records, carry.tally.summary(SEGMENTS * length), ages)


def _begin(fleet: Fleet, lane: Lane, server: Server) -> Carry:
    """State before round 0, of a model that is one number."""
    trial, params = lane.trial, jnp.zeros(())
    state, clients = server.init(params), trial.client.init(params, fleet.num_clients)
    time = begin_time(lane, fleet, state) if trial.timed else None
    clients = None if clients is None else replace(clients, optimizer=None)
    return Carry(trial.world.init(lane.root), state, Tally.empty(fleet.num_clients), clients=clients, time=time)
