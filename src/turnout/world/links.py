"""Whether an upload arrives."""

import abc
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.declarations import Count, Declared, Numbers, Seed, Share, Shares, checked
from turnout.types import Mask, PerClient, RandomKey, Round

__all__ = ["bernoulli", "bursty", "drawn", "perfect", "redrawn"]  # what an experiment file can name
__all__ += ["BernoulliLinks", "Bursty", "Links", "Perfect", "RedrawnLinks"]

PerClientNumbers = Annotated[float | Sequence[float], Numbers(0, 1)]


class Links(Declared):
    """The law of the uploads: one draw per client and round, used if the client uploads."""

    example: ClassVar[str] = "links.bernoulli(num_clients=10, success=0.9)"

    def init(self, key: RandomKey) -> Any:
        """State before round 0."""
        return None

    @abc.abstractmethod
    def step(self, state: Any, t: Round, key: RandomKey) -> tuple[Any, Mask, PerClient]:
        """State, the clients whose upload would arrive, and the probability of that (1 - q)."""

    @abc.abstractmethod
    def mean_success(self) -> PerClient:
        """Long-run share of uploads that arrive."""


class Perfect(Links):
    """Every upload arrives."""

    num_clients: Count = eqx.field(static=True)

    def step(self, state: None, t: Round, key: RandomKey) -> tuple[None, Mask, PerClient]:
        return state, jnp.ones(self.num_clients, bool), jnp.ones(self.num_clients)

    def mean_success(self) -> PerClient:
        return jnp.ones(self.num_clients)


class BernoulliLinks(Links):
    """Uploads arrive independently, each client with its own probability."""

    success: Shares

    def step(self, state: None, t: Round, key: RandomKey) -> tuple[None, Mask, PerClient]:
        return state, jr.bernoulli(key, self.success), self.success

    def mean_success(self) -> PerClient:
        return self.success


class RedrawnLinks(Links):
    """The success probability itself is redrawn each round, uniformly from the client's range (Weng et al. 2025)."""

    low: Shares
    high: Shares

    def step(self, state: None, t: Round, key: RandomKey) -> tuple[None, Mask, PerClient]:
        quality, draw = jr.split(key)
        success = self.low + (self.high - self.low) * jr.uniform(quality, self.low.shape)
        return state, jr.bernoulli(draw, success), success

    def mean_success(self) -> PerClient:
        return (self.low + self.high) / 2


class Bursty(Links):
    """Gilbert–Elliott: each link is in a good or a bad state, and stays there for a while."""

    good: Shares  # success probability in the good state
    bad: Shares  # success probability in the bad state
    fail: Shares  # P(good -> bad)
    heal: Shares  # P(bad -> good)

    def init(self, key: RandomKey) -> Mask:
        return jr.bernoulli(key, self.heal / (self.heal + self.fail))

    def step(self, state: Mask, t: Round, key: RandomKey) -> tuple[Mask, Mask, PerClient]:
        move, draw = jr.split(key)
        state = jr.bernoulli(move, jnp.where(state, 1.0 - self.fail, self.heal))
        delivers = jr.bernoulli(draw, jnp.where(state, self.good, self.bad))
        return state, delivers, self.mean_success()

    def mean_success(self) -> PerClient:
        return (self.good * self.heal + self.bad * self.fail) / (self.heal + self.fail)


@checked
def perfect(num_clients: Count) -> Perfect:
    """Every upload arrives."""
    return Perfect(num_clients)


@checked
def bernoulli(num_clients: Count, success: PerClientNumbers) -> BernoulliLinks:
    """Independent uploads; `success` is 1 - q, common or one per client."""
    return BernoulliLinks(_probabilities(success, num_clients, "success"))


@checked
def drawn(num_clients: Count, low: Share, high: Share, seed: Seed = 0) -> BernoulliLinks:
    """Independent uploads; each client has a success probability of its own, drawn once between `low` and `high`."""
    least, most = _probabilities([low, high], 2, "low and high")
    if low > high:
        raise ValueError(f"links: low must not exceed high, but {low:g} > {high:g}")
    return BernoulliLinks(least + (most - least) * jr.uniform(jr.key(seed), (num_clients,)))


@checked
def redrawn(num_clients: Count, low: PerClientNumbers, high: PerClientNumbers) -> RedrawnLinks:
    """Success probabilities redrawn each round between `low` and `high`, each common or one per client."""
    low_each, high_each = (_probabilities(v, num_clients, n) for v, n in ((low, "low"), (high, "high")))
    if bool(jnp.any(low_each > high_each)):
        client = int(jnp.argmax(low_each > high_each))
        raise ValueError(f"links: low must not exceed high, but it does for client {client}")
    return RedrawnLinks(low_each, high_each)


@checked
def bursty(
    num_clients: Count,
    good: PerClientNumbers = 1.0,
    bad: PerClientNumbers = 0.0,
    fail: PerClientNumbers = 0.05,
    heal: PerClientNumbers = 0.25,
) -> Bursty:
    """Links that fail in bursts of 1 / `heal` rounds on average."""
    named = {"good": good, "bad": bad, "fail": fail, "heal": heal}
    values = {name: _probabilities(value, num_clients, name) for name, value in named.items()}
    if bool(jnp.any(values["fail"] + values["heal"] == 0)):
        raise ValueError("links: fail and heal must not both be 0, or the link never changes state")
    return Bursty(**values)


def _probabilities(values: PerClientNumbers, num_clients: int, name: str) -> PerClient:
    array = np.asarray(values, np.float64)
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != num_clients):
        raise ValueError(f"links: {name} has shape {array.shape}: give one number, or one per client ({num_clients})")
    return jnp.broadcast_to(jnp.asarray(array, jnp.float32), (num_clients,))
