"""Error of the formulas for servers in time, against a play tick by tick.

    python benchmarks/theory_in_time.py            # some minutes; --worlds 30 for tighter numbers

For each case so many random worlds, seeds from 1 on, every third with fixed durations. Printed: mean and largest total
variation between the effective weights, with what chance alone makes of it in the play; errors of the ticks per step
and of the mean age.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "theory" / "time"))

from played_in_ticks import Buffered, Clocked, Rounds, play
from random_worlds import random_world

from turnout.theory import buffered_arrivals, clocked_arrivals, effective_in_time, round_arrivals, total_variation

LEAVING = ("continue", "pause", "abort")
CASES = {
    "buffered, K = N/20": (Buffered, lambda n: {"size": max(n // 20, 1)}),
    "buffered, K = N/2": (Buffered, lambda n: {"size": n // 2}),
    "buffered, K = N/20, C = N/10": (Buffered, lambda n: {"size": max(n // 20, 1), "concurrency": n // 10}),
    "buffered, K = N/20, C = N/2": (Buffered, lambda n: {"size": max(n // 20, 1), "concurrency": n // 2}),
    "clocked, 5 ticks": (Clocked, lambda n: {"every": 5}),
    "rounds, all": (Rounds, lambda n: {"quorum": 1.0}),
    "rounds, 0.8 dropped": (Rounds, lambda n: {"quorum": 0.8}),
    "rounds, 0.5 dropped": (Rounds, lambda n: {"quorum": 0.5}),
    "rounds, 0.5 kept": (Rounds, lambda n: {"quorum": 0.5, "late": "keep"}),
    "rounds, deadline 6": (Rounds, lambda n: {"deadline": 6}),
}
FORMULAS = {Buffered: buffered_arrivals, Clocked: clocked_arrivals, Rounds: round_arrivals}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--worlds", type=int, default=6)
    options.add_argument("--clients", type=int, nargs="+", default=[20, 50])
    chosen = options.parse_args()
    print("| case | N | TV, mean (chance) | TV, largest | averaged, mean | ticks per step, mean, largest | age, mean |")
    print("|---|---|---|---|---|---|---|")
    for name in CASES:
        for count in chosen.clients:
            began = time.perf_counter()
            found = np.array([one(name, count, seed) for seed in range(1, chosen.worlds + 1)])
            tv, chance, averaged, step, age = found.T
            print(
                f"| {name} | {count} | {tv.mean():.2%} ({chance.mean():.2%}) | {tv.max():.2%} | {_shown(averaged)} |"
                f" {np.abs(step).mean():.1%}, {np.abs(step).max():.1%} | {_shown(np.abs(age))} |"
                f" <!-- {time.perf_counter() - began:.0f} s -->",
                flush=True,
            )


def _shown(errors: np.ndarray) -> str:
    return "–" if np.isnan(errors).all() else f"{np.nanmean(errors):.2%}"


def one(name: str, count: int, seed: int) -> tuple[float, ...]:
    """Total variation, what chance makes of it, the same for averages, errors of ticks per step and of the age."""
    kind, arguments = CASES[name]
    given, leaving = arguments(count), LEAVING[seed % 3 if seed % 2 else 0]
    pi, lam, table = random_world(seed, count, longest=5 if leaving == "abort" else 20)
    played = play(kind(**given), pi, lam, table, leaving, ticks=1500, worlds=30, seed=seed, exponent=0.5)
    found = FORMULAS[kind](pi, lam, table, **given, leaving=leaving, exponent=0.5)
    everybody = np.ones(count)
    averaged = np.nan
    if kind is Rounds:
        averaged = total_variation(effective_in_time(found, everybody, average=True), played.share("averaged"))
    aged = played.age.sum() / played.used.sum()
    return (
        total_variation(effective_in_time(found, everybody), played.share()),
        played.noise(),
        averaged,
        found.ticks_per_step / played.ticks_per_step - 1,
        float(found.shares @ found.age) / aged - 1 if aged > 0.01 else np.nan,
    )


if __name__ == "__main__":
    main()
