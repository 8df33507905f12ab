"""Who was there, who was asked and who was heard: a small picture of one run, round by round.

A whole record would have a cell for every client and round. A picture needs no more than a screen has, so that many
clients are watched and that many rounds are written down, evenly spread; the rest is left to the sums by client.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from turnout.types import Cohort, Mask, Round

STATES = ("away", "excluded", "failed", "active")  # not available, not asked, asked but not heard, heard
MOST_CLIENTS = 256
MOST_ROUNDS = 512  # a power of two, as the room for rounds is


def watched_clients(num_clients: int) -> np.ndarray:
    """Whom to watch: all, or a fixed sample; no even stride, as fleets are often laid out in a pattern."""
    if num_clients <= MOST_CLIENTS:
        return np.arange(num_clients)
    return np.sort(np.random.default_rng(0).choice(num_clients, MOST_CLIENTS, replace=False))


class Roll(eqx.Module):
    """The picture while it is drawn."""

    states: UInt8[Array, "rows watched"]
    stride: int = eqx.field(static=True)  # rounds from one row to the next

    @classmethod
    def empty(cls, num_clients: int, round_room: int) -> Roll:
        """Room for a run of at most so many rounds, a power of two."""
        rows = min(MOST_ROUNDS, round_room)
        return cls(jnp.zeros((rows, min(MOST_CLIENTS, num_clients)), jnp.uint8), round_room // rows)

    def add(self, t: Round, available: Mask, cohort: Cohort) -> Roll:
        """The row of round t, if it is one that is written down."""
        ladder = available.astype(jnp.uint8) + cohort.asked.astype(jnp.uint8) + cohort.mask.astype(jnp.uint8)
        row = jnp.asarray(t, jnp.int32)
        place = jnp.where(row % self.stride == 0, row // self.stride, self.states.shape[0])
        seen = ladder[watched_clients(available.shape[0])]
        return Roll(self.states.at[place].set(seen, mode="drop"), self.stride)


@dataclass(frozen=True)
class Attendance:
    """Who was there, asked and heard in one run: some clients, some rounds."""

    seed: int
    rounds: np.ndarray  # which, counted from 1
    clients: np.ndarray  # which
    states: np.ndarray  # (round, client), places in STATES

    @classmethod
    def of(cls, seed: int, states: np.ndarray, stride: int, rounds: int, num_clients: int) -> Attendance:
        """What a roll holds after so many rounds."""
        shown = np.arange(0, rounds, stride)
        return cls(seed, shown + 1, watched_clients(num_clients), states[: len(shown)])
