"""The local work and the uploads of a whole cohort, at a cost in proportion to the steps that it does."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.simulator.client import Client, Sent
from turnout.simulator.local_training import Jobs
from turnout.simulator.mesh import spread_rows
from turnout.simulator.side_by_side import most_of_lanes
from turnout.tasks.base import Task
from turnout.types import Download, Tree


def train_cohort(
    client: Client, task: Task, start: Download, jobs: Jobs, common: int | None, chunk: int, first: int | None = None
) -> Sent:
    """What all jobs send, in their order; zero for a job without steps, unless its upload sends something nevertheless.

    Slots train in chunks, those with most steps first. Each chunk lasts as long as its longest job, and chunks without
    work are skipped. So the cost follows the sum of steps, and a chunk may be chosen to fit a cache. Chunks of one are
    clients one after another. Lanes side by side wait for the longest among them, so they too gain from the order.
    Where all steps are equal there is nothing to sort: empty slots come last already. Then the `first` slots, as many
    as a usual cohort fills, train in one go before the chunks.
    """
    if common is not None:
        return _train_alike(client, task, start, jobs, common, chunk, first)
    slots = jobs.clients.shape[0]
    order = jnp.argsort(-jobs.steps)
    start, jobs = jax.tree.map(lambda leaf: leaf[order], (start, jobs))
    if chunk == 1:
        results = _train_one_by_one(client, task, start, jobs)
    elif chunk >= slots:
        results = _train(client, task, start, jobs, None)
    else:
        results = _train_in_chunks(client, task, start, jobs, None, chunk)
    return jax.tree.map(lambda leaf: leaf[jnp.argsort(order)], results)


def _train_alike(
    client: Client, task: Task, start: Download, jobs: Jobs, common: int, chunk: int, first: int | None
) -> Sent:
    """Jobs of equally many steps: the slots of a usual round in one go, the rest only if somebody is there."""
    if chunk == 1:
        return _train_one_by_one(client, task, start, jobs)
    usual = chunk if first is None else first
    (start, more_start), (jobs, more_jobs) = _cut_at(usual, start), _cut_at(usual, jobs)
    done = _train(client, task, start, jobs, common)
    more = more_jobs.clients.shape[0]
    if more == 0:
        return done
    second = _train_in_chunks(client, task, more_start, more_jobs, common, min(chunk, more))
    return jax.tree.map(lambda one, other: jnp.concatenate([one, other]), done, second)


def _cut_at(place: int, rows: Tree) -> tuple[Tree, Tree]:
    return jax.tree.map(lambda leaf: leaf[:place], rows), jax.tree.map(lambda leaf: leaf[place:], rows)


def _train(client: Client, task: Task, start: Download, jobs: Jobs, common: int | None) -> Sent:
    start, jobs = spread_rows((start, jobs), jobs.clients.shape[0])
    if common is None:
        return client.work(task, start, jobs, most_of_lanes(jnp.max(jobs.steps)), masked=True)
    return client.work(task, start, jobs, common, masked=False)


def _train_one_by_one(client: Client, task: Task, start: Download, jobs: Jobs) -> Sent:
    """A plain map, each job for as many steps as it has.

    Not the loop over chunks below: where lanes run side by side its bound differs between them, and every turn would
    then copy the updates of the whole cohort.
    """

    def alone(start_and_job: tuple[Download, Jobs]) -> Sent:
        begin, job = jax.tree.map(lambda leaf: leaf[None], start_and_job)
        sent = client.work(task, begin, job, job.steps[0], masked=False)
        return jax.tree.map(lambda leaf: leaf[0], sent)

    return jax.lax.map(alone, (start, jobs))


def _train_in_chunks(client: Client, task: Task, start: Download, jobs: Jobs, common: int | None, chunk: int) -> Sent:
    slots = jobs.clients.shape[0]
    spare = -slots % chunk

    def pad(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, spare)] + [(0, 0)] * (leaf.ndim - 1))

    start, jobs = jax.tree.map(pad, (start, jobs))
    # A client without steps may still have something to send: then all chunks are visited, which costs no training.
    skip_idle = client.upload is None or common is not None
    busy = (slots + spare) // chunk
    if skip_idle:
        busy = most_of_lanes(-(-jnp.sum(jobs.steps > 0, dtype=jnp.int32) // chunk))

    def body(number: Int[Array, ""], done: Sent) -> Sent:
        def cut(leaf: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(leaf, number * chunk, chunk)

        def paste(whole: Array, part: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(whole, part, number * chunk, 0)

        begin, chunk_jobs = jax.tree.map(cut, (start, jobs))
        return jax.tree.map(paste, done, _train(client, task, begin, chunk_jobs, common))

    one_chunk = jax.tree.map(lambda leaf: leaf[:chunk], (start, jobs))
    shapes = eqx.filter_eval_shape(_train, client, task, *one_chunk, common)
    nothing = jax.tree.map(lambda leaf: jnp.zeros((slots + spare, *leaf.shape[1:]), leaf.dtype), shapes)
    done = jax.lax.fori_loop(0, busy, body, nothing)
    return jax.tree.map(lambda leaf: leaf[:slots], done)
