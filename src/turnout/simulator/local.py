"""What one client does in a round: some steps of any optimizer on its own data, from where the server says."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, UInt32

from turnout import tree
from turnout.optimizers import first_updates
from turnout.simulator.batches import drawn, noise, shuffled
from turnout.tasks.base import Task
from turnout.types import Params, PerSlot, Round, Scalar, Schedule, rate_at

Batches = Literal["drawn", "shuffled"]
SlotCounts = Int[Array, " slots"]
TINY = 1e-6  # a gradient that nobody clips


class Jobs(eqx.Module):
    """Local work to be done, one row a slot."""

    clients: SlotCounts
    words: UInt32[Array, " slots"]  # a seed for each
    steps: SlotCounts
    rates: PerSlot  # η times the step scale


class Local(eqx.Module):
    """The clients' optimizer: fresh every round, so nothing of it lives on between rounds.

    Step s of a round moves by `learning_rate(t) · scale / (1 + decay · s)` times what the optax transformation makes of
    the gradient; without one it is plain SGD. The transformation's own learning rate comes on top, so it should be 1:
    `Local(learning_rate=1e-3, optimizer=optax.adam(1.0))` is Adam at 1e-3. `proximal` adds μ (w - w_start) to the
    gradient, as FedProx does.
    """

    learning_rate: Scalar | Schedule = 0.1  # η
    proximal: Scalar | None = None  # μ
    decay: Scalar | None = None
    batch_size: int = eqx.field(static=True, default=32)
    batches: Batches = eqx.field(static=True, default="drawn")
    optimizer: optax.GradientTransformation | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {self.batch_size}")
        if self.batches not in ("drawn", "shuffled"):
            raise ValueError(f"batches must be 'drawn' (with replacement) or 'shuffled', not {self.batches!r}")
        if self.optimizer is not None:
            _check_unit_rate(self.optimizer)

    def rate(self, t: Round) -> Scalar:
        """η in round t."""
        return rate_at(self.learning_rate, t)

    def train(self, task: Task, start: Params, jobs: Jobs, most: Scalar, masked: bool) -> tuple[Params, PerSlot]:
        """Updates Δ and mean losses met on the way, one row a job; `most` is the largest number of steps.

        `masked` says that numbers of steps differ, so that some jobs end before others.
        """
        slots = jobs.clients.shape[0]
        begin = (start, jax.vmap(self._fresh)(start), jnp.zeros(slots))
        step = jax.vmap(functools.partial(self._step, task), in_axes=(0, 0, None, 0))

        def body(s: Int[Array, ""], now: Any) -> Any:
            after = step(start, jobs, s, now)
            return tree.where_rows(s < jobs.steps, after, now) if masked else after

        end, _, losses = jax.lax.fori_loop(0, most, body, begin)
        return tree.subtract(end, start), losses / jnp.maximum(jobs.steps, 1).astype(losses.dtype)

    def _step(self, task: Task, start: Params, job: Jobs, s: Int[Array, ""], now: Any) -> Any:
        params, state, losses = now
        choose = drawn if self.batches == "drawn" else shuffled
        positions, present = choose(job.words, s, task.sizes[job.clients], self.batch_size)
        batch = task.batch(job.clients, positions)
        loss, gradient = jax.value_and_grad(task.training_loss)(params, batch, present, noise(job.words, s))
        params, state = self._move(params, start, gradient, state, s, job.rates)
        return params, state, losses + loss

    def probe(self, task: Task, params: Params, client: Int[Array, ""], word: UInt32[Array, ""]) -> Float[Array, ""]:
        """Loss of a model on one batch of a client, with no training."""
        positions, present = drawn(word, jnp.zeros((), jnp.int32), task.sizes[client], self.batch_size)
        return task.loss(params, task.batch(client, positions), present)

    def _fresh(self, params: Params) -> Any:
        return None if self.optimizer is None else self.optimizer.init(params)

    def _move(self, params: Params, start: Params, gradient: Params, state: Any, s: Any, lr: Scalar) -> Any:
        if self.proximal is not None:
            gradient = tree.add(gradient, tree.scale(tree.subtract(params, start), self.proximal))
        if self.optimizer is None:
            updates = jax.tree.map(jnp.negative, gradient)
        else:
            updates, state = self.optimizer.update(gradient, state, params)
        rate = lr if self.decay is None else lr / (1.0 + self.decay * s.astype(jnp.float32))
        return tree.add(params, tree.scale(updates, rate)), state

    def reach(self, steps: Int[Array, "*any"], lr: Scalar, most: int) -> Float[Array, "*any"]:
        """‖a‖₁ of so many steps: how far the optimizer goes, in units of η, under a gradient that is always one.

        Exact for whatever is linear in the gradients: SGD, momentum, proximal and decayed SGD. A step scale that a
        strategy asks for is left out: the strategy knows it.
        """
        if self.optimizer is None and self.proximal is None and self.decay is None:
            return steps.astype(jnp.float32)
        origin, lr = jnp.zeros(()), jnp.maximum(lr, 1e-12)  # the limit where a schedule has come to zero

        def body(carry: tuple[Any, Any], s: Any) -> tuple[Any, Any]:
            place, state = self._move(carry[0], origin, jnp.ones(()), carry[1], s, lr)
            return (place, state), -place / lr

        _, went = jax.lax.scan(body, (origin, self._fresh(origin)), jnp.arange(most))
        return jnp.concatenate([jnp.zeros(1), went])[jnp.minimum(steps, most)]


@functools.lru_cache(maxsize=64)  # one warning per optimizer, however often what holds it is copied
def _check_unit_rate(optimizer: optax.GradientTransformation) -> None:
    """Refuse an optimizer that goes up the gradient, and warn of one that has a learning rate of its own."""
    updates, gentle = first_updates(optimizer, (1.0, 1.0)), first_updates(optimizer, (TINY,))
    if updates is None or gentle is None:
        return
    if updates.sum() > 0:
        raise ValueError(
            f"the optimizer moves by {updates[0, 0]:+.3g} under a gradient of 1, which is up: it must go down, as "
            "optax.sgd(1.0, momentum=0.9) does and optax.trace(0.9) does not"
        )
    # At rate 1 adaptive optimizers make steps of about 1. Clipping ones do not, but leave tiny gradients as they are.
    length, slope = np.abs(updates).max(), np.abs(gentle).max() / TINY
    if not (0.9 < length < 4 or 0.9 < slope < 2):
        warnings.warn(
            f"the optimizer's first steps under a gradient of 1 are up to {length:.3g} long, and learning_rate "
            "multiplies that: give the rate once, as in Local(learning_rate=1e-3, optimizer=optax.adam(1.0))",
            stacklevel=4,
        )
