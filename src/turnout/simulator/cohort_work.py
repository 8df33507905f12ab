"""A whole cohort's local work, at a cost that follows the steps it really does."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from turnout import tree
from turnout.simulator.local import Jobs, Local
from turnout.tasks.base import Task
from turnout.types import Params, PerSlot


def train_cohort(
    local: Local, task: Task, start: Params, jobs: Jobs, common: int | None, chunk: int
) -> tuple[Params, PerSlot]:
    """Updates and mean losses of all jobs, in their order; zero for a job of no steps.

    Slots train in chunks, those of most steps first, each chunk as long as its own longest; chunks with nothing to do
    are not visited. So the cost follows the sum of steps, and a chunk may be chosen to fit a cache. Chunks of one are
    clients one after another. Lanes side by side wait for the longest among them, so they too gain from the order.
    """
    slots = jobs.clients.shape[0]
    # Empty slots come last as it is: where all steps are equal there is nothing to sort.
    order = jnp.arange(slots) if common is not None else jnp.argsort(-jobs.steps)
    if common is None:
        start, jobs = jax.tree.map(lambda leaf: leaf[order], (start, jobs))
    if chunk == 1:
        results = _train_one_by_one(local, task, start, jobs)
    elif chunk >= slots:
        results = _train(local, task, start, jobs, common)
    else:
        results = _train_in_chunks(local, task, start, jobs, common, chunk)
    return results if common is not None else jax.tree.map(lambda leaf: leaf[jnp.argsort(order)], results)


def _train(local: Local, task: Task, start: Params, jobs: Jobs, common: int | None) -> tuple[Params, PerSlot]:
    if common is None:
        return local.train(task, start, jobs, jnp.max(jobs.steps), masked=True)
    return local.train(task, start, jobs, common, masked=False)


def _train_one_by_one(local: Local, task: Task, start: Params, jobs: Jobs) -> tuple[Params, PerSlot]:
    """A plain map, each job for as many steps as it has.

    Not the loop over chunks below: where lanes run side by side its bound differs between them, and every turn would
    then copy the updates of the whole cohort.
    """

    def alone(one: tuple[Params, Jobs]) -> tuple[Params, Float[Array, ""]]:
        begin, job = jax.tree.map(lambda leaf: leaf[None], one)
        update, loss = local.train(task, begin, job, job.steps[0], masked=False)
        return jax.tree.map(lambda leaf: leaf[0], update), loss[0]

    return jax.lax.map(alone, (start, jobs))


def _train_in_chunks(
    local: Local, task: Task, start: Params, jobs: Jobs, common: int | None, chunk: int
) -> tuple[Params, PerSlot]:
    slots = jobs.clients.shape[0]
    spare = -slots % chunk

    def pad(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, spare)] + [(0, 0)] * (leaf.ndim - 1))

    start, jobs = jax.tree.map(pad, (start, jobs))
    busy = -(-jnp.sum(jobs.steps > 0, dtype=jnp.int32) // chunk)

    def body(number: Int[Array, ""], done: Any) -> Any:
        def cut(leaf: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(leaf, number * chunk, chunk)

        def paste(whole: Array, part: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(whole, part, number * chunk, 0)

        begin, mine = jax.tree.map(cut, (start, jobs))
        return jax.tree.map(paste, done, _train(local, task, begin, mine, common))

    nothing = tree.zeros_like(start), jnp.zeros(slots + spare)
    done = jax.lax.fori_loop(0, busy, body, nothing)
    return jax.tree.map(lambda leaf: leaf[:slots], done)
