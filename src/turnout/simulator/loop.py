"""The compiled loop: the world, the server and the clients, round after round, as one program."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout.round_records import OVERFLOW, RECORDS
from turnout.server.tally import Tally
from turnout.simulator.attendance import Roll
from turnout.simulator.carry import Carry
from turnout.simulator.clients import Clients, Trainees
from turnout.simulator.lane import Lane
from turnout.simulator.mesh import spread_rows
from turnout.simulator.orders import Orders, admit, ask, known_truth, work
from turnout.simulator.run_plan import Bounds
from turnout.simulator.tick import begin_time, play_tick
from turnout.simulator.trial import Trial
from turnout.streams import Stream, round_key
from turnout.types import Params, PerClient, PerSlot, RandomKey, Round, View
from turnout.world import World, WorldState


def recorded(trial: Trial) -> tuple[str, ...]:
    """Names of what is recorded of every round of a trial."""
    named = (record.name for record in RECORDS if record.simulated and record.counted and record.timed <= trial.timed)
    return (*named, OVERFLOW)


def begin(lane: Lane) -> Carry:
    """State before round 0."""
    task, trial, root = lane.task, lane.trial, lane.root
    params = task.init(round_key(root, Stream.MODEL))
    state = lane.server.init(params)
    state = replace(state, facts=trial.facts.watch_past(state.facts, trial.world.availability, root))
    roll = Roll.empty(task.num_clients, lane.record_plan.rounds)
    clients = trial.client.init(params, task.num_clients)
    time = begin_time(lane, task.fleet, state) if trial.timed else None
    return Carry(trial.world.init(root), state, Tally.empty(task.num_clients), roll, clients, time)


def finish(lane: Lane, carry: Carry) -> tuple[Params, dict[str, PerClient]]:
    """The model to ship, and its metrics per client."""
    params, wanted = lane.server.model(carry.server), lane.record_plan.metrics
    by_client = lane.task.per_client(params)
    return params, {name: by_client[name] for name in by_client if wanted is None or name in wanted}


def play_round(clients: Clients, lane: Lane, t: Round, carry: Carry) -> tuple[Carry, dict[str, Float[Array, ""]]]:
    """One round, from the world's draw to the record of the results; where work takes time, one tick of it."""
    if lane.trial.timed:
        return play_tick(clients, lane, t, carry)
    trial, root = lane.trial, lane.root
    server = trial.make_server(clients.fleet, lane.plan.slots)
    world, nature = trial.world.step(carry.world, root, t)
    lr = trial.local.rate(t)
    truth = known_truth(lane, nature, lr)
    losses = clients.losses(lane, t, nature.available, carry.server.params) if trial.strategy.needs_losses else None
    view = server.view(carry.server, t, nature.available, lr, truth, losses)
    orders, download, state = ask(lane, server, carry.server, view, nature, truth)
    done = work(clients, lane, orders, download, carry.clients)
    cohort = nature.deliver(admit(server, state, view, orders.cohort, done, root))
    orders = replace(orders, cohort=cohort)
    reports = done.reports(orders, keep_lost=trial.strategy.needs_lost)
    closed = server.close(state, view, cohort, reports, carry.tally)
    roll = None if carry.roll is None else carry.roll.add(t, nature.available, cohort.asked, cohort.mask)
    kept = done.commit(carry.clients, cohort)
    return Carry(world, closed.state, closed.tally, roll, kept), _record(view, orders, closed.weight)


def _record(view: View, orders: Orders, weight: PerSlot) -> dict[str, Float[Array, ""]]:
    def count(mask: Array) -> Float[Array, ""]:
        return jnp.sum(mask, dtype=jnp.float32)

    cohort = orders.cohort
    return {
        "available": count(view.available),
        "cohort": count(cohort.trained),
        "uploads": count(cohort.uploading),
        "arrived": count(cohort.arrived),
        "weight_sum": jnp.sum(weight),
        "local_steps": count(orders.jobs.steps),
        OVERFLOW: cohort.overflow.astype(jnp.float32),
    }


class Written(eqx.Module):
    """Arrays for the results of one segment."""

    metrics: dict[str, Float[Array, " evaluations"]]
    records: dict[str, Float[Array, " rounds"]]


def advance(lane: Lane, bounds: Bounds, carry: Carry) -> tuple[Carry, Written]:
    """Blocks first ≤ b < last: evaluate the model, then play the rounds until the next evaluation.

    Bounds are traced, so other segments run the same program, with the same results to the last bit.
    """
    first, last, every, rounds = bounds
    task, record_plan = lane.task, lane.record_plan

    def evaluate(now: Carry) -> dict[str, Array]:
        values = task.evaluate(lane.server.model(now.server))
        return {name: values[name] for name in record_plan.metrics or values}

    def one_round(t: Array, state: tuple[Carry, dict[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        now, records = state
        now, record = play_round(Trainees(task), lane, t, now)
        now = spread_rows(now, task.num_clients)
        return now, {name: space.at[t - first * every].set(record[name]) for name, space in records.items()}

    def one_block(b: Array, state: tuple[Carry, Written]) -> tuple[Carry, Written]:
        now, written = state
        values = evaluate(now)
        metrics = {name: space.at[b - first].set(values[name]) for name, space in written.metrics.items()}
        stop = jnp.minimum((b + 1) * every, rounds)
        now, records = jax.lax.fori_loop(b * every, stop, one_round, (now, written.records))
        return now, Written(metrics, records)

    blank = Written(
        metrics={name: jnp.full(record_plan.evaluations, jnp.nan) for name in jax.eval_shape(evaluate, carry)},
        records={name: jnp.full(record_plan.rounds, jnp.nan) for name in recorded(lane.trial)},
    )
    return jax.lax.fori_loop(first, last, one_block, (carry, blank))


class Crowd(NamedTuple):
    """How many clients are available at once."""

    most: Array
    total: Array  # over all rounds
    squares: Array  # the same, of the square


def count_crowd(world: World, root: RandomKey, rounds: Int[Array, ""]) -> Crowd:
    """Play the world alone for `rounds` rounds. The run itself meets the same absences, as it has the same keys."""

    def body(t: Array, state: tuple[WorldState, Crowd]) -> tuple[WorldState, Crowd]:
        world_state, crowd = state
        world_state, nature = world.step(world_state, root, t)
        now = jnp.sum(nature.available, dtype=jnp.float32)
        return world_state, Crowd(jnp.maximum(crowd.most, now), crowd.total + now, crowd.squares + now**2)

    return jax.lax.fori_loop(0, rounds, body, (world.init(root), Crowd(*[jnp.zeros(())] * 3)))[1]
