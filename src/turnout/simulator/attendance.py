"""Which clients were available, were asked and answered: a sample of one run, round by round.

A whole record would have a cell for every client and round. A chart needs no more cells than a screen has pixels. So
at most that many clients and evenly spread rounds are recorded; the sums per client cover the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from turnout.types import Mask, Round

# Not available; not asked; asked without an answer; answered; and where work takes time, not done yet.
STATES = ("away", "excluded", "failed", "active", "at work")
MAX_CLIENTS = 256
MAX_ROUNDS = 512  # a power of two, as the room for rounds is


def watched_clients(num_clients: int) -> np.ndarray:
    """The clients to record: all, or a fixed random sample, as an even stride could follow a pattern of the fleet."""
    if num_clients <= MAX_CLIENTS:
        return np.arange(num_clients)
    return np.sort(np.random.default_rng(0).choice(num_clients, MAX_CLIENTS, replace=False))


class Roll(eqx.Module):
    """The record while a run is under way."""

    states: UInt8[Array, "rows watched"]
    stride: int = eqx.field(static=True)  # rounds from one row to the next

    @classmethod
    def empty(cls, num_clients: int, rounds: int) -> Roll:
        """An empty record for a run of at most `rounds` rounds, a power of two."""
        rows = min(MAX_ROUNDS, rounds)
        return cls(jnp.zeros((rows, min(MAX_CLIENTS, num_clients)), jnp.uint8), rounds // rows)

    def add(self, t: Round, available: Mask, asked: Mask, arrived: Mask, working: Mask | None = None) -> Roll:
        """The record with round t, if that round is one of those recorded; each mask lies within the one before.

        Where work takes time, asked are those whose work has ended in this tick; `working`: still at work, or away.
        """
        state = available.astype(jnp.uint8) + asked.astype(jnp.uint8) + arrived.astype(jnp.uint8)
        if working is not None:
            state = jnp.where(working, STATES.index("at work"), state).astype(jnp.uint8)
        row = jnp.asarray(t, jnp.int32)
        place = jnp.where(row % self.stride == 0, row // self.stride, self.states.shape[0])
        watched = state[watched_clients(available.shape[0])]
        return Roll(self.states.at[place].set(watched, mode="drop"), self.stride)


@dataclass(frozen=True)
class Attendance:
    """States of a sample of clients in a sample of rounds of one run."""

    seed: int
    rounds: np.ndarray  # the recorded ones, counted from 1
    clients: np.ndarray  # the recorded ones
    states: np.ndarray  # (round, client), indices into STATES

    @classmethod
    def of(cls, seed: int, states: np.ndarray, stride: int, rounds: int, num_clients: int) -> Attendance:
        """The attendance in a roll after `rounds` rounds."""
        shown = np.arange(0, rounds, stride)
        return cls(seed, shown + 1, watched_clients(num_clients), states[: len(shown)])
