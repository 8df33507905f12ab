"""Sums per client over the rounds: how often it was available, asked and heard, and with what weight."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.types import Cohort, Mask, PerClient, PerSlot, Round


class Tally(eqx.Module):
    """Sums per client over the rounds so far."""

    available: PerClient
    asked: PerClient
    arrived: PerClient
    weight: PerClient  # sum of the weights given to its updates
    last: Int[Array, " clients"]  # round of the last arrival, -1 before the first
    stalest: Int[Array, " clients"]  # longest time without an arrival

    @classmethod
    def empty(cls, num_clients: int) -> Tally:
        zeros, never = jnp.zeros(num_clients), jnp.full(num_clients, -1, jnp.int32)
        return cls(zeros, zeros, zeros, zeros, never, jnp.zeros(num_clients, jnp.int32))

    def add(self, t: Round | Int[Array, " clients"], available: Mask, asked: Mask, arrived: Mask) -> Tally:
        """The sums after round t, or after a tick of time, without the weights of updates.

        `t` is one for all, or by client the round that its update is of.
        """
        last = jnp.where(arrived, jnp.asarray(t, jnp.int32), self.last)
        return replace(
            self,
            available=self.available + available.astype(jnp.float32),
            asked=self.asked + asked.astype(jnp.float32),
            arrived=self.arrived + arrived.astype(jnp.float32),
            last=last,
            stalest=jnp.maximum(self.stalest, jnp.asarray(t, jnp.int32) - last),
        )

    def weigh(self, cohort: Cohort, weight: PerSlot) -> Tally:
        """The sums with the weights of the updates that a step has used."""
        return replace(self, weight=self.weight + cohort.put(weight))

    def renew(self, t: Round, places: Mask) -> Tally:
        """The sums in which these places start anew in round t, and have missed nothing before."""
        fresh = Tally.empty(places.shape[0])
        fresh = replace(fresh, last=jnp.full_like(fresh.last, jnp.asarray(t, jnp.int32) - 1))
        return jax.tree.map(lambda old, new: jnp.where(places, new, old), self, fresh)

    def grow(self, num_clients: int) -> Tally:
        """The sums with more places at the end, which count from round 0."""
        return jax.tree.map(lambda old, new: new.at[: old.shape[0]].set(old), self, Tally.empty(num_clients))

    def summary(self, rounds: int) -> dict[str, Array]:
        """The sums by name; `stalest` includes the wait that was still open at the end."""
        sums = {name: getattr(self, name) for name in ("available", "asked", "arrived", "weight")}
        return sums | {"stalest": jnp.maximum(self.stalest, rounds - 1 - self.last)}
