"""The compiled loop: the world, the server and the clients, round after round, as one program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from turnout import tree
from turnout.availability.base import Process
from turnout.metrics import OVERFLOW, RECORDS
from turnout.server.facts import Facts
from turnout.server.server import ServerState
from turnout.server.tally import Tally
from turnout.simulator.attendance import Roll
from turnout.simulator.client_state import ClientState
from turnout.simulator.clients import Clients, Plan, Trainees
from turnout.simulator.local import Jobs, Local
from turnout.simulator.mesh import spread_rows
from turnout.simulator.trial import Law, Trial
from turnout.streams import Stream, client_words, round_key
from turnout.tasks.base import Task
from turnout.types import Cohort, Known, Params, PerClient, PerSlot, RandomKey, Reports, Round, Scalar, View
from turnout.uploads.base import UploadContext
from turnout.world import Nature, World, WorldState


class Bounds(NamedTuple):
    """The part of a run to play; traced, so that one program serves every length and every segment."""

    first: Int[Array, ""]  # block
    last: Int[Array, ""]  # block after the last
    every: Int[Array, ""]  # rounds of a block
    rounds: Int[Array, ""]  # of the whole run


class Carry(eqx.Module):
    """The state that is carried from round to round."""

    world: WorldState
    server: ServerState
    tally: Tally
    roll: Roll | None = None  # where attendance is recorded
    clients: ClientState | None = None  # where clients keep a state


RECORDED = (*(record.name for record in RECORDS if record.simulated and record.counted), OVERFLOW)


def begin(task: Task, trial: Trial, law: Law, plan: Plan, root: RandomKey) -> Carry:
    """State before round 0."""
    params = task.init(round_key(root, Stream.MODEL))
    server = trial.server(task.fleet, plan.slots)
    state = server.init(params)
    state = replace(state, facts=watched(server.facts, state.facts, trial.world.availability, root))
    roll = Roll.empty(task.num_clients, plan.round_room)
    clients = trial.client_state(params, task.num_clients)
    return Carry(trial.world.init(root), state, Tally.empty(task.num_clients), roll, clients)


def watched(facts: Facts, state: Any, process: Process, root: RandomKey) -> Any:
    """The facts of a server that has watched the availability for some rounds before round 0.

    That past is a run of the same process with its own random stream. Its length does not change the later rounds, so
    strategies with and without a past meet the same absences.
    """
    if facts.rounds_watched == 0:
        return state
    key = round_key(root, Stream.PAST)

    def step(carry: tuple[Any, Any], t: Array) -> tuple[tuple[Any, Any], None]:
        process_state, available = process.step(carry[0], t, jr.fold_in(key, t + 1))
        return (process_state, facts.watch(carry[1], available)), None

    start = (process.init(jr.fold_in(key, 0)), state)
    (_, state), _ = jax.lax.scan(step, start, jnp.arange(facts.rounds_watched))
    return facts.open(state)


def finish(
    task: Task, trial: Trial, law: Law, plan: Plan, root: RandomKey, carry: Carry
) -> tuple[Params, dict[str, PerClient]]:
    """The model to ship, and its metrics per client."""
    params = trial.server(task.fleet, plan.slots).model(carry.server)
    by_client = task.per_client(params)
    return params, {name: by_client[name] for name in by_client if plan.metrics is None or name in plan.metrics}


def play_round(
    clients: Clients, trial: Trial, law: Law, plan: Plan, root: RandomKey, t: Round, carry: Carry
) -> tuple[Carry, dict[str, Float[Array, ""]]]:
    """One round, from the world's draw to the record of the results."""
    server = trial.server(clients.fleet, plan.slots)
    world, nature = trial.world.step(carry.world, root, t)
    lr = trial.local.rate(t)
    truth = _truth(law, nature, trial.local, lr, plan)
    losses = None
    if trial.strategy.probes:
        losses = clients.losses(trial, plan, root, t, nature.available, carry.server.params)
    view = server.view(carry.server, t, nature.available, lr, truth, losses)
    cohort, state = server.ask(carry.server, view, root)
    reach = cohort.take(truth.reach)
    jobs = Jobs(
        clients=jnp.minimum(cohort.ids, cohort.num_clients - 1),
        words=client_words(round_key(root, Stream.TRAIN, t), cohort.ids),
        steps=cohort.take(nature.steps),
        rates=cohort.scale * jnp.asarray(lr, cohort.scale.dtype),
        held=None if carry.clients is None else cohort.read(carry.clients),
        context=None if trial.upload is None else _contexts(root, t, lr, cohort, reach),
    )
    sent = clients.work(trial, plan, server.start(state, cohort), jobs, reach)
    if not trial.strategy.admits_all:
        norms = tree.row_norms(
            jax.lax.stop_gradient(sent.updates)
        )  # norms decide who uploads; no gradient flows through that
        cohort = server.admit(state, view, cohort, norms, root)
    cohort = nature.deliver(cohort)
    reports = Reports.arrived(cohort, sent.updates, sent.losses, reach)
    closed = server.close(state, view, cohort, reports, carry.tally)
    roll = None if carry.roll is None else carry.roll.add(t, nature.available, cohort)
    remembered = None
    if carry.clients is not None and jobs.held is not None and sent.held is not None:
        remembered = carry.clients.after(cohort, jobs.held, sent.held, trained=jobs.steps > 0)
    return Carry(world, closed.state, closed.tally, roll, remembered), _record(view, cohort, closed.weight, jobs)


def _contexts(root: RandomKey, t: Round, lr: Scalar, cohort: Cohort, reach: PerSlot) -> UploadContext:
    """One row per slot."""
    words = client_words(round_key(root, Stream.UPLOAD, t), cohort.ids)
    rate, number = (jnp.full(words.shape, value, jnp.float32) for value in (lr, t))
    return UploadContext(words, rate, reach=reach, t=number)


def _truth(law: Law, nature: Nature, local: Local, lr: Scalar, plan: Plan) -> Known:
    unknown = jnp.full(nature.success.shape, jnp.nan)
    pi, lam = (unknown, unknown) if law is None else law
    return Known(pi, lam, nature.success, local.reach(nature.steps, lr, plan.most_steps))


def _record(view: View, cohort: Cohort, weight: Array, jobs: Jobs) -> dict[str, Float[Array, ""]]:
    def count(mask: Array) -> Float[Array, ""]:
        return jnp.sum(mask, dtype=jnp.float32)

    return {
        "available": count(view.available),
        "cohort": count(cohort.ids < cohort.num_clients),
        "uploads": count(cohort.active),
        "arrived": count(cohort.arrived),
        "weight_sum": jnp.sum(weight),
        "local_steps": count(jobs.steps),
        OVERFLOW: cohort.overflow.astype(jnp.float32),
    }


class Written(eqx.Module):
    """Arrays for the results of one segment."""

    metrics: dict[str, Float[Array, " evaluations"]]
    records: dict[str, Float[Array, " rounds"]]


def advance(
    task: Task, trial: Trial, law: Law, plan: Plan, root: RandomKey, bounds: Bounds, carry: Carry
) -> tuple[Carry, Written]:
    """Blocks first ≤ b < last: evaluate the model, then play the rounds until the next evaluation.

    Bounds are traced, so other segments run the same program, with the same results to the last bit.
    """
    first, last, every, rounds = bounds

    def evaluate(now: Carry) -> dict[str, Array]:
        values = task.evaluate(trial.server(task.fleet, plan.slots).model(now.server))
        return {name: values[name] for name in plan.metrics or values}

    def one_round(t: Array, state: tuple[Carry, dict[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        now, records = state
        now, record = play_round(Trainees(task), trial, law, plan, root, t, now)
        now = spread_rows(now, task.num_clients)
        return now, {name: records[name].at[t - first * every].set(value) for name, value in record.items()}

    def one_block(b: Array, state: tuple[Carry, Written]) -> tuple[Carry, Written]:
        now, written = state
        values = evaluate(now)
        metrics = {name: room.at[b - first].set(values[name]) for name, room in written.metrics.items()}
        stop = jnp.minimum((b + 1) * every, rounds)
        now, records = jax.lax.fori_loop(b * every, stop, one_round, (now, written.records))
        return now, Written(metrics, records)

    room = Written(
        metrics={name: jnp.full(plan.room, jnp.nan) for name in jax.eval_shape(evaluate, carry)},
        records={name: jnp.full(plan.round_room, jnp.nan) for name in RECORDED},
    )
    return jax.lax.fori_loop(first, last, one_block, (carry, room))


class Crowd(NamedTuple):
    """How many clients are available at once."""

    most: Array
    total: Array  # over all rounds
    squares: Array  # the same, of the square


def count_crowd(world: World, root: RandomKey, rounds: Int[Array, ""]) -> Crowd:
    """Play the world alone for `rounds` rounds; a run replays it later from the same keys."""

    def body(t: Array, state: tuple[WorldState, Crowd]) -> tuple[WorldState, Crowd]:
        world_state, crowd = state
        world_state, nature = world.step(world_state, root, t)
        now = jnp.sum(nature.available, dtype=jnp.float32)
        return world_state, Crowd(jnp.maximum(crowd.most, now), crowd.total + now, crowd.squares + now**2)

    return jax.lax.fori_loop(0, rounds, body, (world.init(root), Crowd(*[jnp.zeros(())] * 3)))[1]
