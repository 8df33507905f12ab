"""A whole run without data: clients vote instead of training, and the final model says how much each vote counted.

The model is one number. In place of an update a client k sends its vote v_k, times the reach of its work and its step
length. All that a server does to updates is linear in them, be it weighing, averaging or remembering, so the model is

    x = Σ_k Ω_k v_k,      Ω_k = ∂x / ∂v_k,

and one backward pass through the server's own code gives the weight Ω_k that every client had in fact. What would
depend on the values of updates or on losses, which nobody knows without training, sees all clients alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from turnout.metrics import OVERFLOW
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.simulator import chosen_seeds, loop, use_compilation_cache
from turnout.simulator.lanes import check_overflow, crowd_sizes
from turnout.simulator.local import Jobs, Local
from turnout.simulator.loop import Carry, Clients, Plan
from turnout.simulator.placement import num_workers, rounded
from turnout.simulator.trial import Trial, as_arrays
from turnout.types import Fleet, Mask, Params, PerClient, PerSlot, RandomKey, Round

SEGMENTS = 25  # of a run, each with votes of its own: they show how much the weights vary
BURN_IN = 5  # segments in which strategies learn what they need to know; the model is counted from then on
_RESIDUALS = 2**26  # numbers that a backward pass may keep; above, segments are played a second time


class Voters(Clients):
    """Clients that have no data, only a vote."""

    importance: PerClient
    votes: PerClient

    @property
    def fleet(self) -> Fleet:
        return Fleet(self.importance)

    def losses(self, trial: Trial, plan: Plan, root: RandomKey, t: Round, available: Mask, params: Params) -> PerClient:
        """The same for all."""
        return available.astype(jnp.float32)

    def work(self, trial: Trial, plan: Plan, start: Params, jobs: Jobs, reach: PerSlot) -> tuple[Params, PerSlot]:
        return jobs.rates * reach * self.votes[jobs.clients], jnp.ones_like(reach)


class Votes(eqx.Module):
    """What a run gave: one row a lane."""

    counted: Float[Array, "... segments clients"] | None  # what a segment's votes brought after the burn-in, if wanted
    moves: Float[Array, "... rounds"]  # the model's step if all vote one: total weight, reach and learning rate
    staleness: Float[Array, "... rounds"]  # rounds since a client's last arrival, mean by target
    records: dict[str, Float[Array, "... rounds"]]
    clients: dict[str, Float[Array, "... clients"] | Any]


def play_trials(
    fleet: Fleet,
    trials: Sequence[Trial],
    *,
    rounds: int,
    seeds: int | Sequence[int],
    count: bool = True,
    report: Callable[[int], None] | None = None,
) -> list[Votes]:
    """Votes of every trial, at least so many rounds in whole segments; several trials at a time on a CPU.

    The server's learning rate, its optimizer and a projection are left out. Without `count` only the model is moved.
    `report` is told the number of trials done.
    """
    use_compilation_cache()
    roots = jax.vmap(jr.key)(jnp.asarray(chosen_seeds(seeds), jnp.uint32))
    length = -(-rounds // SEGMENTS)
    plain = [as_arrays(replace(trial, settings=ServerSettings(facts=trial.facts))) for trial in trials]
    plans = _plans(fleet, trials, plain, roots, length * SEGMENTS)
    done = itertools.count(1)

    def one(trial: Trial, plan: Plan) -> Votes:
        votes = jax.tree.map(np.asarray, _play_lanes(fleet, trial, trial.world.law(), plan, roots, length, count))
        if report is not None:
            report(next(done))
        check_overflow(votes.records[OVERFLOW])
        return votes

    with ThreadPoolExecutor(num_workers()) as pool:
        return list(pool.map(one, plain, plans))


def local_rates(local: Local, rounds: int) -> np.ndarray:
    """The clients' learning rate in every round."""
    rate = local.learning_rate
    return np.array([float(rate(t)) for t in range(rounds)]) if callable(rate) else np.full(rounds, float(rate))


def _plans(fleet: Fleet, trials: Sequence[Trial], plain: list[Trial], roots: Any, rounds: int) -> list[Plan]:
    """What fixes the shapes; every different world is played once to count its largest crowd."""
    crowds: dict[int, int] = {}
    plans = []
    for trial, arrays in zip(trials, plain, strict=True):
        world = id(trial.world)
        if world not in crowds:
            crowds[world] = crowd_sizes([arrays.world], roots, rounds)[0]
        slots = min(fleet.num_clients, rounded(trial.strategy.capacity(crowds[world])))
        plans.append(
            Plan(
                slots=slots,
                most_available=fleet.num_clients,
                room=0,  # nothing is evaluated
                round_room=0,
                common_steps=None,
                most_steps=trial.world.compute.most,
                chunk=slots,
                metrics=None,
            )
        )
    return plans


@eqx.filter_jit
def _play_lanes(fleet: Fleet, trial: Trial, law: loop.Law, plan: Plan, roots: Any, length: int, count: bool) -> Votes:
    """Segments of so many rounds, one lane a root key."""
    return jax.vmap(lambda root: _play(fleet, trial, law, plan, root, length, count))(roots)


def _play(fleet: Fleet, trial: Trial, law: loop.Law, plan: Plan, root: RandomKey, length: int, count: bool) -> Votes:
    server = trial.server(fleet, plan.slots)
    target = fleet.target

    def one_round(votes: PerClient, carry: Carry, t: Any) -> tuple[Carry, Any]:
        now, record = loop.play_round(Voters(fleet.importance, votes), trial, law, plan, root, t, carry)
        age = (t - now.tally.last).astype(target.dtype)
        move = server.model(now.server) - server.model(carry.server)
        return now, (record, jax.lax.stop_gradient(move), jnp.sum(target * age))

    def one_segment(carry: Carry, segment: Any) -> tuple[Carry, Any]:
        number, votes = segment
        rounds = number * length + jnp.arange(length)
        carry, written = jax.lax.scan(lambda now, t: one_round(votes, now, t), carry, rounds)
        return carry, (server.model(carry.server), written)

    def model(votes: Float[Array, "segments clients"]) -> tuple[Array, Any]:
        begin = Carry(trial.world.init(root), server.init(jnp.zeros(())), Tally.empty(fleet.num_clients))
        numbers = jnp.arange(SEGMENTS, dtype=jnp.int32)
        kept = SEGMENTS * length * plan.slots
        segment = one_segment if kept <= _RESIDUALS else jax.checkpoint(one_segment)
        carry, (models, written) = jax.lax.scan(segment, begin, (numbers, votes))
        return models[-1] - models[BURN_IN - 1], (carry.tally, written)

    ones = jnp.ones((SEGMENTS, fleet.num_clients))
    if count:
        _, backward, (tally, written) = jax.vjp(model, ones, has_aux=True)
        (counted,) = backward(jnp.ones(()))
    else:
        counted, (_, (tally, written)) = None, model(ones)
    records, moves, staleness = jax.tree.map(lambda leaf: leaf.reshape(-1), written)
    return Votes(counted, moves, staleness, records, tally.summary(SEGMENTS * length))
