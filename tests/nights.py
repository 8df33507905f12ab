"""Nights, rounds in which one client of many comes, and clients that start late: in simulations and on real nodes."""

import jax.numpy as jnp
import numpy as np

from turnout.availability.base import Process
from turnout.types import Array


class Given(Process[tuple[()]]):
    """Who is there in each round as a table says, one row per round; its last row goes on for ever."""

    there: Array

    @property
    def num_clients(self):
        return self.there.shape[1]

    def init(self, key):
        return ()

    def step(self, state, t, key):
        return (), self.there[jnp.minimum(jnp.asarray(t, jnp.int32), self.there.shape[0] - 1)]


def given(*spells):
    """The process of these spells, one after the other."""
    return Given(jnp.asarray(np.concatenate(spells)))


def usual(num_clients, rounds, share=0.6, seed=0):
    """Rounds in which this share of the clients comes; in the first and the last one all of them do."""
    there = np.random.default_rng(seed).random((rounds, num_clients)) < share
    there[0] = there[-1] = True
    return there


def nobody(num_clients, rounds=100):
    return np.zeros((rounds, num_clients), bool)


def one(num_clients, rounds=100, client=0):
    """Rounds in which this client comes alone."""
    there = nobody(num_clients, rounds)
    there[:, client] = True
    return there


def days(num_clients, count=4, length=20):
    """Days with a night, in which nobody comes, and a morning and an evening with few."""
    share = np.clip(np.sin(2 * np.pi * np.arange(count * length) / length), 0, 1)[:, None]
    return np.random.default_rng(1).random((count * length, num_clients)) < 0.9 * share


def late(num_clients, rounds=40, early=2):
    """Rounds in which only the first clients come."""
    return usual(num_clients, rounds) & (np.arange(num_clients) < early)


def usual_share(shares):
    """Ā of these shares of the target that came: their mean by round, or half of that by arrival, if this is more."""
    shares = np.asarray(shares, np.float64)
    return max(shares.mean(), 0.5 * (shares @ shares) / shares.sum())
