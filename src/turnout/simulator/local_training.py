"""The local work of clients in a round: steps on their own data, from the models that they are sent."""

from __future__ import annotations

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from turnout import tree
from turnout.simulator.client_optimizer import Local
from turnout.simulator.client_state import ClientState
from turnout.simulator.mesh import everywhere, spread_rows
from turnout.simulator.minibatches import Chooser, Present, Seed, Step, drawn, noise, shuffled
from turnout.strategies.client_side import Gradient
from turnout.tasks.base import Task
from turnout.types import Params, PerSlot, PyTree, Scalar
from turnout.uploads.base import UploadContext

SlotCounts = Int[Array, " slots"]


class Jobs(eqx.Module):
    """Local work to be done, one row per slot."""

    clients: SlotCounts
    seeds: UInt32[Array, " slots"]
    steps: SlotCounts
    rates: PerSlot  # η times the step scale
    held: ClientState | None = None  # the state of the clients, where they keep one
    context: UploadContext | None = None  # of the upload transform, where there is one


class Trained(eqx.Module):
    """The results of local work, one row per job."""

    updates: Params  # Δ
    losses: PerSlot  # mean loss over the steps
    optimizer: PyTree = None  # its state at the end, where it is kept
    mean_gradient: Params | None = None  # of the raw gradients, where it is wanted
    last_gradient: Params | None = None  # likewise


class RawGradients(eqx.Module):
    """Raw gradients of the steps so far, one row per job; None where nobody wants them."""

    total: Params | None
    last: Params | None

    @classmethod
    def empty(cls, start: Params, wanted: tuple[Gradient, ...]) -> RawGradients:
        return cls(*(tree.zeros_like(start) if name in wanted else None for name in ("mean", "last")))

    def add(self, gradient: Params) -> RawGradients:
        total = None if self.total is None else tree.add(self.total, gradient)
        return RawGradients(total, None if self.last is None else gradient)


class _Running(NamedTuple):
    """Local work under way, one row per job, or that of one job."""

    params: Params
    optimizer: PyTree
    losses: Array  # sum over the steps so far
    raw: RawGradients


def train_locally(
    local: Local,
    task: Task,
    start: Params,
    jobs: Jobs,
    most: Scalar,
    masked: bool,
    push: Params | None = None,
    wanted: tuple[Gradient, ...] = (),
) -> Trained:
    """The work of all jobs; `most` is the largest number of steps.

    `masked`: numbers of steps differ, so some jobs end before others. `push`, one row per job, is added to every
    gradient. `wanted` are the raw gradients to report.
    """
    slots = jobs.clients.shape[0]
    fresh = jax.vmap(local.fresh)(start) if jobs.held is None or not local.lasting else jobs.held.optimizer
    choose = drawn if local.batches == "drawn" else shuffled
    begin = _Running(start, fresh, jnp.zeros(slots), RawGradients.empty(start, wanted))
    step = jax.vmap(functools.partial(_step, local, task), in_axes=(0, 0, 0, 0, None, 0))

    def body(s: Step, now: _Running) -> _Running:
        after = step(start, push, jobs, draw_batches(local, task, choose, jobs.clients, jobs.seeds, s), s, now)
        return tree.where_rows(s < jobs.steps, after, now) if masked else after

    end, optimizer, losses, raw = jax.lax.fori_loop(0, most, body, begin)
    updates, counts = tree.subtract(end, start), jnp.maximum(jobs.steps, 1).astype(losses.dtype)
    optimizer = optimizer if local.lasting else None
    mean = None if raw.total is None else tree.scale_rows(raw.total, 1.0 / counts)
    return Trained(updates, losses / counts, optimizer, mean, raw.last)


def draw_batches(
    local: Local, task: Task, choose: Chooser, clients: SlotCounts, seeds: UInt32[Array, " slots"], s: Step
) -> tuple[PyTree, Float[Array, "slots batch"]]:
    """One batch per slot for step s, and which of its samples are no padding."""

    def one_batch(client: Int[Array, ""], seed: Seed) -> tuple[PyTree, Present]:
        positions, present = choose(seed, s, task.sizes[client], local.batch_size)
        return task.batch(client, positions), present

    # A device cuts all batches out of the data that it holds: for its own alone it would need the data of all.
    samples = everywhere(jax.vmap(one_batch)(*everywhere((clients, seeds))))
    return spread_rows(samples, clients.shape[0])


def _step(
    local: Local,
    task: Task,
    start: Params,
    push: Params | None,
    job: Jobs,
    samples: tuple[PyTree, Present],
    s: Step,
    now: _Running,
) -> _Running:
    """One step of one job."""
    batch, present = samples
    if local.precision == "bfloat16":
        batch = task.shorten(batch)
    loss, gradient = jax.value_and_grad(task.training_loss)(now.params, batch, present, noise(job.seeds, s))
    steered = gradient if push is None else tree.add(gradient, push)
    params, state = local.move(now.params, start, steered, now.optimizer, s, job.rates)
    return _Running(params, state, now.losses + loss, now.raw.add(gradient))


def probe_losses(
    local: Local, task: Task, params: Params, clients: SlotCounts, seeds: UInt32[Array, " slots"]
) -> PerSlot:
    """Loss of a model on one batch of each client, with no training."""
    batches, present = draw_batches(local, task, drawn, clients, seeds, jnp.zeros((), jnp.int32))
    return jax.vmap(task.loss, in_axes=(None, 0, 0))(params, batches, present)
