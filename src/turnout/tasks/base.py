"""The interface of a task: the clients' data, a model to fit, and its evaluation."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from turnout import tree
from turnout.declarations import Declared
from turnout.metrics import DISTANCE, TEST_ACCURACY, WORST_DECILE
from turnout.types import Fleet, Params, PerClient, RandomKey, divide

Batch = Any  # a pytree of arrays; its leading axis is the batch


class Task(Declared):
    """A federated problem: minimise Σ_k α_k F_k over the clients k.

    Everything is pure and traced per client: `batch` and `loss` see one client and are mapped over the cohort. A task
    without data (a quadratic) has one sample per client and ignores `positions`.
    """

    example: ClassVar[str] = "turnout.tasks.quadratics(num_clients=10)"

    @property
    @abc.abstractmethod
    def sizes(self) -> Int[Array, " clients"]:
        """Number of training samples of each client, at least one."""

    @property
    @abc.abstractmethod
    def importance(self) -> PerClient:
        """How much each client should count, up to a common factor."""

    @abc.abstractmethod
    def init(self, key: RandomKey) -> Params:
        """Parameters before training."""

    @abc.abstractmethod
    def batch(self, client: Int[Array, ""], positions: Int[Array, " batch"]) -> Batch:
        """The client's training samples at the given positions, each in [0, sizes[client])."""

    @abc.abstractmethod
    def loss(self, params: Params, batch: Batch, present: Float[Array, " batch"]) -> Float[Array, ""]:
        """Mean loss over the batch, penalties included; `present` is 0 for padding, else 1."""

    def training_loss(
        self, params: Params, batch: Batch, present: Float[Array, " batch"], seed: UInt32[Array, ""]
    ) -> Float[Array, ""]:
        """The loss whose gradient is followed; `seed` is for random numbers of the model, such as dropout."""
        return self.loss(params, batch, present)

    def shorten(self, batch: Batch) -> Batch:
        """The batch with its inputs in bfloat16, so that the model computes in it; for tasks whose model can."""
        raise ValueError(f"{type(self).__name__} computes in 32 bits only: leave precision at 'float32'")

    @abc.abstractmethod
    def per_client(self, params: Params) -> dict[str, PerClient]:
        """Metrics of one model on each client, NaN where a client has no such data.

        Names are those of `turnout.metrics.PER_CLIENT`: a loss and an accuracy for each split.
        """

    @property
    def optimum(self) -> Params | None:
        """The minimiser of the target objective where it is known."""
        return None

    @property
    def one_by_one_on_cpu(self) -> bool:
        """Whether a CPU should train clients one after another, which suits large models, rather than side by side."""
        return False

    def as_written(self) -> Task | None:
        """The task without faster forms of its model, for a device that does not compile them; None if it has none."""
        return None

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the clients, if they have names; results are then shown and stored with them."""
        return None

    @property
    def num_clients(self) -> int:
        return self.importance.shape[-1]

    @property
    def fleet(self) -> Fleet:
        return Fleet(self.importance)

    def beside(self, tasks: Sequence[Any]) -> tuple[Task, Task]:
        """Draws of a task, this one the first, as two tasks: what they share, and arrays with one row per draw.

        Each has None where the other has something, so that `equinox.combine` of the first with one row of the second
        is a task again.
        """
        arrays, rest = zip(*(eqx.partition(task, eqx.is_array) for task in tasks), strict=True)
        return rest[0], jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)

    def evaluate(self, params: Params) -> dict[str, Float[Array, ""]]:
        """Metrics of one model, weighted by the target; the worst decile is that of test accuracy."""
        by_client = self.per_client(params)
        metrics = {name: target_mean(values, self.importance) for name, values in by_client.items()}
        if TEST_ACCURACY in by_client:
            metrics[WORST_DECILE] = worst_decile(by_client[TEST_ACCURACY])
        if (optimum := self.optimum) is not None:
            metrics[DISTANCE] = tree.norm(tree.subtract(params, optimum))
        return metrics


def in_a_line(task: Task, counted: dict[str, Array | None]) -> str:
    """The class of a task with the lengths of arrays; None, as in the parts that `beside` makes, is left out."""
    lengths = (f"{array.shape[-1]:,} {what}" for what, array in counted.items() if array is not None)
    return f"{type(task).__name__}({', '.join(lengths)})"


def target_mean(values: PerClient, importance: PerClient) -> Float[Array, ""]:
    """Mean over the clients that have a value, weighted by importance."""
    weight = jnp.where(jnp.isnan(values), 0.0, importance)
    counted = jnp.where(weight > 0, values, 0.0)  # leaves out an infinite loss of a client without weight
    return divide(jnp.sum(counted * weight), jnp.sum(weight), otherwise=jnp.nan)


def worst_decile(values: PerClient) -> Float[Array, ""]:
    """Mean over the worst tenth of the clients, at least one."""
    has_value = ~jnp.isnan(values)
    count = (jnp.sum(has_value, dtype=jnp.int32) + 9) // 10
    ordered = jnp.sort(jnp.where(has_value, values, jnp.inf))
    worst = (jnp.arange(ordered.shape[0]) < count) & jnp.isfinite(ordered)
    return divide(jnp.sum(jnp.where(worst, ordered, 0.0)), jnp.sum(worst, dtype=values.dtype), otherwise=jnp.nan)
