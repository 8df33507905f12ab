"""The contract of a task."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout import tree
from turnout.declarations import Count, checked
from turnout.metrics import PER_CLIENT, TRAIN_LOSS, metric_named
from turnout.tasks.base import Task
from turnout.testing.claims import require, require_close, require_finite, require_same_form
from turnout.types import Params


@checked
def check_task(task: Task, *, clients: Count = 5) -> None:
    """Raise an AssertionError unless the task keeps its contract, tried on its first few clients."""
    sizes, importance = np.asarray(task.sizes), np.asarray(task.importance)
    require(
        sizes.shape == importance.shape == (task.num_clients,), "sizes and importance must have one entry per client"
    )
    require(bool(np.all(sizes >= 1)), f"every client needs a sample; client {int(np.argmin(sizes))} has {sizes.min()}")
    require(bool(np.all(importance >= 0) and importance.sum() > 0), "importance must be 0 or more, and not all 0")
    params = task.init(jr.key(0))
    require_finite(params, "initial parameters must be finite")
    _check_loss(task, params, jnp.arange(min(clients, task.num_clients)))
    _check_metrics(task, params)
    if task.optimum is not None:
        _check_optimum(task)


def _check_loss(task: Task, params: Params, ids: jax.Array) -> None:
    whole = int(jnp.max(task.sizes[ids]))

    def mean_loss(client: jax.Array, room: int) -> jax.Array:
        places = jnp.arange(room)
        inside = places < task.sizes[client]
        batch = task.batch(client, jnp.where(inside, places, 0))
        return task.loss(params, batch, inside.astype(jnp.float32))

    @jax.jit
    def together() -> tuple[jax.Array, jax.Array, jax.Array, Params]:
        losses, padded = (
            jax.vmap(lambda client, room=room: mean_loss(client, room))(ids) for room in (whole, whole + 3)
        )
        batch = task.batch(ids[0], jnp.zeros(1, jnp.int32))
        gradient = jax.grad(lambda p: task.loss(p, batch, jnp.ones(1)))(params)
        return losses, padded, task.per_client(params)[TRAIN_LOSS][ids], gradient

    losses, padded, stated, gradient = together()
    require_finite(losses, "the loss must be finite at the initial parameters")
    require_close(padded, losses, "padding with present = 0 must not change a loss")
    compiled = jax.jit(lambda client: mean_loss(client, whole))
    alone = jnp.stack([compiled(client) for client in ids])
    require_close(alone, losses, "losses mapped over clients must equal losses one by one")
    require_close(stated, losses, f"{TRAIN_LOSS} must be the mean loss over a client's training data", 1e-4)
    require_same_form(gradient, params, "the gradient must look like the parameters")
    require_finite(gradient, "the gradient must be finite at the initial parameters")


def _check_metrics(task: Task, params: Params) -> None:
    by_client, overall = eqx.filter_jit(lambda p: (task.per_client(p), task.evaluate(p)))(params)
    require(set(by_client) <= set(PER_CLIENT), f"metrics must be among {sorted(PER_CLIENT)}, not {sorted(by_client)}")
    for name, values in by_client.items():
        require(values.shape == (task.num_clients,), f"{name} must have one entry per client, not shape {values.shape}")
        if metric_named(name).percent:
            shares = np.asarray(values)[~np.isnan(values)]
            require(bool(np.all((shares >= 0) & (shares <= 1))), f"{name} must be a share between 0 and 1")
    require_finite(overall, "metrics must be finite at the initial parameters")


def _check_optimum(task: Task) -> None:
    """The gradient of the target objective vanishes at the stated optimum."""

    def objective(params: Params) -> jax.Array:
        return jnp.sum(task.fleet.target * task.per_client(params)[TRAIN_LOSS])

    slope = jax.jit(lambda params: tree.norm(jax.grad(objective)(params)))
    at_optimum, at_start = slope(task.optimum), slope(task.init(jr.key(0)))
    require(
        bool(at_optimum <= 1e-3 * (1 + at_start)), f"the gradient at the stated optimum has length {at_optimum:.2g}"
    )
