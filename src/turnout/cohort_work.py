"""A whole cohort's local work, at a cost that follows the steps it really does."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from turnout.local import Jobs, Local
from turnout.tasks.base import Task
from turnout.types import Params, PerSlot


def train_cohort(
    local: Local, task: Task, start: Params, jobs: Jobs, common: int | None, chunk: int
) -> tuple[Params, PerSlot]:
    """Updates and mean losses of all jobs, in their order.

    Where everybody does `common` steps all slots train side by side. Otherwise slots are sorted by steps and trained in
    chunks, each as long as its own longest: the cost follows the sum of steps, and empty slots are nearly free.
    """
    if common is not None:
        return local.train(task, start, jobs, common, masked=False)
    slots = jobs.clients.shape[0]
    order = jnp.argsort(-jobs.steps)
    padded = jnp.pad(order, (0, -slots % chunk), constant_values=slots)
    groups = padded.reshape(-1, chunk)
    idle = jnp.pad(jobs.steps, (0, 1))

    def group(rows: jax.Array) -> tuple[Params, PerSlot]:
        inside = jnp.minimum(rows, slots - 1)
        mine, begin = jax.tree.map(lambda leaf: leaf[inside], (jobs, start))
        steps = idle[rows]
        mine = Jobs(mine.clients, mine.words, steps, mine.rates)
        return local.train(task, begin, mine, jnp.max(steps), masked=True)

    results = jax.lax.map(group, groups)
    back = jnp.argsort(order)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[back], results)
