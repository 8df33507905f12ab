"""How far LastWord leaves the optimum of quadratics while one client of a hundred comes in each of a hundred rounds.

    python benchmarks/thin_rounds.py [--seeds 5]

42 settings for each learning rate: the spell begins after 1 to 150 rounds in which a client is there with probability
0.6; clients do one local step, 1 to 4 or 1 to 19, always the same number; one and the same client comes, or one that is
drawn in each round. Every seed has its own draws; the quadratics are the same. Counted are runs in which the distance
in the spell stays within twice that before, or within twice 5 % of the distance at the start, if that is more.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int

from turnout import Local, World
from turnout.availability.base import Process
from turnout.simulator.simulate import simulate_trials
from turnout.simulator.trial import Trial
from turnout.strategies import MIFA, LastWord
from turnout.strategies.base import Strategy
from turnout.tasks import quadratics
from turnout.types import Mask, RandomKey, Round
from turnout.world import compute, links

CLIENTS, SPELL, SHARE = 100, 100, 0.6
BEGINNINGS, MOST_STEPS = (1, 2, 5, 10, 20, 60, 150), (1, 4, 19)
RATES = (0.01, 0.05, 0.2)
STRATEGIES: dict[str, Strategy[Any]] = {
    "LastWord": LastWord(),
    "LastWord, never fading": LastWord(fading=0.0),
    "MIFA": MIFA(),
}


class Thin(Process[Int[Array, ""]]):
    """Everybody in the first round, then each client with the same probability, and one alone in the spell."""

    first: Int[Array, ""]
    anew: Int[Array, ""]  # 1: drawn in each round, 0: once

    @property
    def num_clients(self) -> int:
        return CLIENTS

    def init(self, key: RandomKey) -> Int[Array, ""]:
        return jr.randint(key, (), 0, CLIENTS)

    def step(self, state: Int[Array, ""], t: Round, key: RandomKey) -> tuple[Int[Array, ""], Mask]:
        now = jnp.asarray(t, jnp.int32)
        one = jnp.where(self.anew > 0, jr.randint(jr.fold_in(key, 1), (), 0, CLIENTS), state)
        usual = (jr.uniform(key, (CLIENTS,)) < SHARE) | (now == 0)
        in_spell = (now >= self.first) & (now < self.first + SPELL)
        return state, jnp.where(in_spell, jnp.arange(CLIENTS) == one, usual)


def main() -> None:
    parser = argparse.ArgumentParser(description="What thin rounds cost on quadratics.")
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    settings = list(itertools.product(BEGINNINGS, MOST_STEPS, (False, True)))
    print(f"{len(settings)} settings, {seeds} seeds; share of runs in %, and the largest factor")
    print("strategy | rate | at most doubled | or within 10 % of the first | largest | the same above 5 %")
    for (label, strategy), rate in itertools.product(STRATEGIES.items(), RATES):
        factors, floored = grown(strategy, rate, settings, seeds)
        shares = [f"{100 * np.mean(found <= 2):.0f}" for found in (factors, floored)]
        print(" | ".join([label, str(rate), *shares, f"{factors.max():.1f}", f"{floored.max():.1f}"]), flush=True)


def grown(
    strategy: Strategy[Any], rate: float, settings: list[tuple[int, int, bool]], seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """The farthest distance in the spell over that before it, and over 5 % of the first one at least."""
    steps = {most: compute.per_client(CLIENTS, (1 + np.arange(CLIENTS) % most).tolist()) for most in MOST_STEPS}
    trials = [
        Trial(
            strategy=strategy,
            world=World(Thin(jnp.asarray(first), jnp.asarray(int(anew))), links.bernoulli(CLIENTS, 1.0), steps[most]),
            local=Local(learning_rate=rate, batch_size=1),
        )
        for first, most, anew in settings
    ]
    task = quadratics(CLIENTS, 3, spread=3.0, seed=2)
    runs = simulate_trials(task, trials, rounds=max(BEGINNINGS) + SPELL, seeds=seeds, metrics=("distance",))
    factors, floored = [], []
    for (first, _, _), run in zip(settings, runs, strict=True):
        distances = run.metrics["distance"]
        farthest, before = distances[:, first : first + SPELL + 1].max(axis=1), distances[:, first]
        factors.append(farthest / before)
        floored.append(farthest / np.maximum(before, 0.05 * distances[:, 0]))
    return np.array(factors), np.array(floored)


if __name__ == "__main__":
    main()
