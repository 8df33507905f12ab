"""The local work of a client in a round: steps of any optimizer on its own data, from the model that it is sent."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, UInt32

from turnout import tree
from turnout.declarations import Count, Declared, NotNegativeScalar, check_fields
from turnout.optimizers import first_updates
from turnout.simulator.client_state import ClientState
from turnout.simulator.mesh import everywhere, spread_rows
from turnout.simulator.minibatches import Chooser, Present, Seed, Step, drawn, noise, shuffled
from turnout.strategies.client_side import Gradient
from turnout.tasks.base import Task
from turnout.types import Params, PerSlot, PyTree, Round, Scalar, Schedule, rate_at
from turnout.uploads.base import UploadContext

Batches = Literal["drawn", "shuffled"]
Probed = Literal["batch", "train", "validation", "test"]
Precision = Literal["float32", "bfloat16"]
SlotCounts = Int[Array, " slots"]
_SETTLING_STEPS = 10_000  # after which a momentum of up to 0.999 has settled
_TINY_GRADIENT = 1e-6  # below any clipping threshold


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


class Local(Declared):
    """The clients' optimizer: fresh in every round, unless it is `lasting`: then a client keeps its momentum.

    Step s of a round moves by `learning_rate(t) · scale / (1 + decay · s)` times the result of the optax transformation
    of the gradient; without one it is plain SGD. The transformation's own learning rate multiplies that: set it to 1.
    `Local(learning_rate=1e-3, optimizer=optax.adam(1.0))` is Adam at 1e-3. `proximal` adds μ (w - w_start) to the
    gradient, as FedProx does. `probed` says on what data strategies such as CA-Fed ask for a loss: one training batch,
    or a whole split. Selecting clients by their test data, as CA-Fed's public code does, spoils these for judging.
    `precision` is what the model computes in while it trains. With "bfloat16" inputs, activations and weights of a step
    have 16 bits; sums of products, the gradient's way into the model, the model itself and evaluations keep 32.
    """

    example: ClassVar[str] = "Local(learning_rate=0.1)"

    learning_rate: NotNegativeScalar | Schedule = 0.1  # η
    proximal: NotNegativeScalar | None = None  # μ
    decay: NotNegativeScalar | None = None
    batch_size: Count = eqx.field(static=True, default=32)
    batches: Batches = eqx.field(static=True, default="drawn")
    optimizer: optax.GradientTransformation | None = eqx.field(static=True, default=None)
    probed: Probed = eqx.field(static=True, default="batch")  # where a loss is asked for
    lasting: bool = eqx.field(static=True, default=False)  # clients keep the optimizer's state between rounds
    precision: Precision = eqx.field(static=True, default="float32")

    def __check_init__(self) -> None:
        check_fields(self)
        if self.lasting and self.optimizer is None:
            raise ValueError("lasting needs an optimizer whose state can be kept, such as optax.sgd(1.0, momentum=0.9)")
        if self.optimizer is not None:
            _check_unit_rate(self.optimizer)

    def rate(self, t: Round) -> Scalar:
        """η in round t."""
        return rate_at(self.learning_rate, t)

    def with_pull(self, pull: Scalar | None) -> Local:
        """The same with A (w - w_start) added to every gradient, besides the proximal term of its own."""
        if pull is None:
            return self
        return replace(self, proximal=pull if self.proximal is None else self.proximal + pull)

    def train(
        self,
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
        fresh = jax.vmap(self.fresh)(start) if jobs.held is None or not self.lasting else jobs.held.optimizer
        choose = drawn if self.batches == "drawn" else shuffled
        begin = _Running(start, fresh, jnp.zeros(slots), RawGradients.empty(start, wanted))
        step = jax.vmap(functools.partial(self._step, task), in_axes=(0, 0, 0, 0, None, 0))

        def body(s: Step, now: _Running) -> _Running:
            after = step(start, push, jobs, self._samples(task, choose, jobs.clients, jobs.seeds, s), s, now)
            return tree.where_rows(s < jobs.steps, after, now) if masked else after

        end, optimizer, losses, raw = jax.lax.fori_loop(0, most, body, begin)
        updates, counts = tree.subtract(end, start), jnp.maximum(jobs.steps, 1).astype(losses.dtype)
        optimizer = optimizer if self.lasting else None
        mean = None if raw.total is None else tree.scale_rows(raw.total, 1.0 / counts)
        return Trained(updates, losses / counts, optimizer, mean, raw.last)

    def _samples(
        self, task: Task, choose: Chooser, clients: SlotCounts, seeds: UInt32[Array, " slots"], s: Step
    ) -> tuple[PyTree, Float[Array, "slots batch"]]:
        """One batch per slot for step s, and which of its samples are no padding."""

        def one_batch(client: Int[Array, ""], seed: Seed) -> tuple[PyTree, Present]:
            positions, present = choose(seed, s, task.sizes[client], self.batch_size)
            return task.batch(client, positions), present

        # A device cuts all batches out of the data that it holds: for its own alone it would need the data of all.
        samples = everywhere(jax.vmap(one_batch)(*everywhere((clients, seeds))))
        return spread_rows(samples, clients.shape[0])

    def _step(
        self,
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
        if self.precision == "bfloat16":
            batch = task.shorten(batch)
        loss, gradient = jax.value_and_grad(task.training_loss)(now.params, batch, present, noise(job.seeds, s))
        steered = gradient if push is None else tree.add(gradient, push)
        params, state = self._move(now.params, start, steered, now.optimizer, s, job.rates)
        return _Running(params, state, now.losses + loss, now.raw.add(gradient))

    def probe(self, task: Task, params: Params, clients: SlotCounts, seeds: UInt32[Array, " slots"]) -> PerSlot:
        """Loss of a model on one batch of each client, with no training."""
        batches, present = self._samples(task, drawn, clients, seeds, jnp.zeros((), jnp.int32))
        return jax.vmap(task.loss, in_axes=(None, 0, 0))(params, batches, present)

    def fresh(self, params: Params) -> PyTree:
        """State of the optimizer before its first step."""
        return None if self.optimizer is None else self.optimizer.init(params)

    def _move(
        self, params: Params, start: Params, gradient: Params, state: PyTree, s: Step, lr: Scalar
    ) -> tuple[Params, PyTree]:
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
        strategy asks for is left out: the strategy knows it. A lasting optimizer is taken in its steady state, where
        the first step already has the momentum of earlier rounds.
        """
        if self.optimizer is None and self.proximal is None and self.decay is None:
            return steps.astype(jnp.float32)
        origin, lr = jnp.zeros(()), jnp.maximum(lr, 1e-12)  # the limit where a schedule has reached zero

        def body(carry: tuple[Array, PyTree], s: Step) -> tuple[tuple[Array, PyTree], Array]:
            place, state = self._move(carry[0], origin, jnp.ones(()), carry[1], s, lr)
            return (place, state), -place / lr

        state = self._steady_state() if self.lasting else self.fresh(origin)
        _, distances = jax.lax.scan(body, (origin, state), jnp.arange(most))
        return jnp.concatenate([jnp.zeros(1), distances])[jnp.minimum(steps, most)]

    def _steady_state(self) -> PyTree:
        """State of the optimizer after many steps along a gradient that is always one; computed once, while tracing."""
        optimizer, place = self.optimizer, jnp.zeros(())
        assert optimizer is not None  # or nothing would last

        def body(state: PyTree, _: None) -> tuple[PyTree, None]:
            return optimizer.update(jnp.ones(()), state, place)[1], None

        with jax.ensure_compile_time_eval():
            return jax.lax.scan(body, optimizer.init(place), length=_SETTLING_STEPS)[0]


@functools.lru_cache(maxsize=64)  # one warning per optimizer, however often its Local is copied
def _check_unit_rate(optimizer: optax.GradientTransformation) -> None:
    """Refuse an optimizer that climbs the gradient, and warn of one that has a learning rate of its own."""
    updates, gentle = first_updates(optimizer, (1.0, 1.0)), first_updates(optimizer, (_TINY_GRADIENT,))
    if updates is None or gentle is None:
        return
    if updates.sum() > 0:
        raise ValueError(
            f"the optimizer moves by {updates[0, 0]:+.3g} under a gradient of 1, which is up: it must go down, as "
            "optax.sgd(1.0, momentum=0.9) does and optax.trace(0.9) does not"
        )
    # At rate 1 adaptive optimizers make steps of about 1. Clipping ones do not, but leave tiny gradients as they are.
    length, slope = np.abs(updates).max(), np.abs(gentle).max() / _TINY_GRADIENT
    if not (0.9 < length < 4 or 0.9 < slope < 2):
        warnings.warn(
            f"the optimizer's first steps under a gradient of 1 are up to {length:.3g} long, and learning_rate "
            "multiplies that: give the rate once, as in Local(learning_rate=1e-3, optimizer=optax.adam(1.0))",
            stacklevel=4,
        )
