"""How many local steps a client does in a round."""

import abc
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int

from turnout.declarations import (
    MAX_COUNT,
    Count,
    Counts,
    Declared,
    Numbers,
    NumRounds,
    Seed,
    StepCount,
    StepCounts,
    checked,
)
from turnout.declarations.arrays import refuse
from turnout.types import RandomKey, Round, Steps

__all__ = ["Compute", "Fixed", "PerClientSteps", "RedrawnSteps", "drawn", "fixed", "per_client", "redrawn"]

Unit = Literal["steps", "epochs"]
Sizes = Annotated[Int[Array, " clients"], Numbers(0)]  # samples of each client
PerClientCounts = Annotated[int | Sequence[int], Numbers(0, MAX_COUNT)]


class Compute(Declared):
    """The law of the number of local steps."""

    example: ClassVar[str] = "compute.fixed(num_clients=10, steps=5)"

    @abc.abstractmethod
    def step(self, t: Round, key: RandomKey) -> Steps:
        """Local steps of every client in round t, whether or not it is asked."""

    @abc.abstractmethod
    def mean_of(self, table: np.ndarray) -> np.ndarray:
        """Mean over the rounds, per client, of a quantity that is `table[s]` after s steps, s = 0 … most."""

    @property
    @abc.abstractmethod
    def most(self) -> int:
        """The largest number of steps possible; a Python int, not traced."""

    @property
    def common(self) -> int | None:
        """The number of steps if it is the same for every client and round, known before tracing."""
        return None


class Fixed(Compute):
    """Every client does the same number of steps in every round."""

    steps: StepCount = eqx.field(static=True)
    num_clients: Count = eqx.field(static=True)

    def step(self, t: Round, key: RandomKey) -> Steps:
        return jnp.full(self.num_clients, self.steps, jnp.int32)

    def mean_of(self, table: np.ndarray) -> np.ndarray:
        return np.full(self.num_clients, table[self.steps])

    @property
    def most(self) -> int:
        return self.steps

    @property
    def common(self) -> int:
        return self.steps


class PerClientSteps(Compute):
    """Each client has its own number of steps, the same in every round."""

    steps: StepCounts

    def step(self, t: Round, key: RandomKey) -> Steps:
        return self.steps

    def mean_of(self, table: np.ndarray) -> np.ndarray:
        return table[np.asarray(self.steps)]

    @property
    def most(self) -> int:
        return int(jnp.max(self.steps))


class RedrawnSteps(Compute):
    """Steps redrawn each round, uniformly from the client's range, ends included (Weng et al. 2025, dynamic)."""

    low: StepCounts
    high: StepCounts
    unit: Counts  # local steps in one unit: 1, or the batches of an epoch

    def step(self, t: Round, key: RandomKey) -> Steps:
        return self.unit * jr.randint(key, self.low.shape, self.low, self.high + 1)

    def mean_of(self, table: np.ndarray) -> np.ndarray:
        low, high, unit = (np.asarray(each) for each in (self.low, self.high, self.unit))
        return np.array([table[u * np.arange(a, b + 1)].mean() for a, b, u in zip(low, high, unit, strict=True)])

    @property
    def most(self) -> int:
        return int(jnp.max(self.high * self.unit))


@checked
def fixed(
    num_clients: Count,
    steps: NumRounds = 5,
    unit: Unit = "steps",
    sizes: Sizes | None = None,
    batch_size: Count | None = None,
) -> Compute:
    """Build the same number of steps, or of epochs over its own data, for every client."""
    if unit == "steps":
        return Fixed(int(_counts(steps, 1, "steps")[0]), num_clients)
    return per_client(num_clients, steps, unit, sizes, batch_size)


@checked
def per_client(
    num_clients: Count,
    steps: PerClientCounts,
    unit: Unit = "steps",
    sizes: Sizes | None = None,
    batch_size: Count | None = None,
) -> Compute:
    """Build one number of steps or epochs per client."""
    return PerClientSteps(_steps("steps", _counts(steps, num_clients, "steps"), unit, sizes, batch_size))


@checked
def drawn(
    num_clients: Count,
    low: Annotated[int, Numbers(0, MAX_COUNT)],
    high: Annotated[int, Numbers(0, MAX_COUNT)],
    seed: Seed = 0,
) -> PerClientSteps:
    """Build one number of steps per client, drawn once between `low` and `high`, ends included."""
    least, most = _counts([low, high], 2, "low and high")
    if least > most:
        raise ValueError(f"low must not exceed high, but {low} > {high}")
    return PerClientSteps(jr.randint(jr.key(seed), (num_clients,), int(least), int(most) + 1, jnp.int32))


@checked
def redrawn(
    num_clients: Count,
    low: PerClientCounts,
    high: PerClientCounts,
    unit: Unit = "steps",
    sizes: Sizes | None = None,
    batch_size: Count | None = None,
) -> Compute:
    """Build numbers of steps or epochs redrawn each round between `low` and `high`, ends included."""
    least, most = _counts(low, num_clients, "low"), _counts(high, num_clients, "high")
    if np.any(least > most):
        raise ValueError(f"low must not exceed high, but it does for client {int(np.argmax(least > most))}")
    _steps("high", most, unit, sizes, batch_size)
    return RedrawnSteps(
        *(jnp.asarray(each, jnp.int32) for each in (least, most, _unit(unit, num_clients, sizes, batch_size)))
    )


def _steps(name: str, counts: np.ndarray, unit: Unit, sizes: Sizes | None, batch_size: int | None) -> Steps:
    """Numbers of local steps that counts of steps or epochs are."""
    steps = counts * _unit(unit, counts.size, sizes, batch_size)
    refuse(
        steps > MAX_COUNT,
        lambda k: f"client {k} does {steps[k]:,} local steps, by {name} = {counts[k]:,}",
        f"must be at most {MAX_COUNT:,}",
    )
    return jnp.asarray(steps, jnp.int32)


def _unit(unit: Unit, num_clients: int, sizes: Sizes | None, batch_size: int | None) -> np.ndarray:
    if unit == "steps":
        return np.ones(num_clients, np.int64)
    if sizes is None or batch_size is None:
        raise ValueError("unit = 'epochs' needs the clients' sizes and the batch size")
    samples = np.asarray(sizes, np.int64)
    if samples.shape != (num_clients,):
        raise ValueError(f"sizes has {samples.size} values for {num_clients} clients: give one per client")
    return -(-samples // batch_size)


def _counts(values: PerClientCounts, num_clients: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != num_clients):
        raise ValueError(f"{name} has shape {array.shape}: give one number, or one per client ({num_clients})")
    return np.broadcast_to(array.astype(np.int64), (num_clients,))
