"""How well a server estimates π and λ after some rounds of watching its clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from turnout.availability import two_classes
from turnout.availability.markov import Markov
from turnout.server.facts import Online
from turnout.types import Fleet, PerClient, RandomKey
from turnout.workbench.reproduction.curve_table import Curve

BySeed = Float[Array, "seeds clients"]

METRIC = "estimation_error"


def watching(
    past: Sequence[int] = (10, 32, 100, 316, 1000, 3162, 10000), num_clients: int = 100, seeds: int = 10
) -> list[Curve]:
    """Mean absolute error over the clients of `Online`'s π̂ and λ̂ after so many rounds, in the world of CA-Fed's papers.

    One panel for each reading of who is correlated: half of both classes of availability, or of the less available one.
    """
    return [
        *_curves("both classes", "both", past, num_clients, seeds),
        *_curves("three groups", "unavailable_only", past, num_clients, seeds),
    ]


def _curves(
    panel: str, split: Literal["both", "unavailable_only"], past: Sequence[int], num_clients: int, seeds: int
) -> list[Curve]:
    process = two_classes(num_clients, split=split)
    errors: dict[str, list[np.ndarray]] = {"π": [], "λ": []}
    for rounds in past:
        truths = process.stationary(), process.correlation()
        for label, truth, estimates in zip(errors, truths, _estimates(rounds, process, seeds), strict=True):
            errors[label].append(np.abs(np.asarray(estimates) - np.asarray(truth)).mean(axis=1))
    return [
        Curve(panel, label, METRIC, np.asarray(past), tuple(range(seeds)), np.stack(rows, axis=1))
        for label, rows in errors.items()
    ]


def _estimates(rounds: int, process: Markov, seeds: int) -> tuple[BySeed, BySeed]:
    """π̂ and λ̂ after so many rounds, one row per seed."""
    facts, fleet = Online(past=rounds), Fleet(jnp.ones(process.num_clients))

    def of_seed(seed: Array) -> tuple[PerClient, PerClient]:
        root: RandomKey = jr.key(seed)
        estimates = facts.read(facts.watch_past(facts.init(fleet), process, root), None)
        return estimates.pi, estimates.lam

    return jax.jit(jax.vmap(of_seed))(jnp.arange(seeds))
