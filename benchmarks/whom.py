"""Whom servers train for when work takes time: effective weights as played, without training, beside the formulas.

    python benchmarks/whom.py [--ticks 5000] [--seeds 2] [--store]

100 clients, 44 of them slow: log-normal durations of 1 to 20 ticks beyond the first. They are always there, or of two
classes of availability. Every client should count alike. `--store` keeps the numbers for docs/time.md.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import turnout
from turnout import availability, durations, strategies, theory
from turnout.arguments import law

COUNT = 100
SLOW = durations.drawn(COUNT, median=5.0, sigma=0.9, low=1, high=20, seed=3)
FEW, ALL = turnout.Buffered(10, 50), turnout.Buffered(10)
WORLDS = {
    "always there": availability.bernoulli(COUNT, 1.0),
    "two classes": availability.two_classes(COUNT, shuffle=True),
}
SERVERS = {
    "FedAvg, rounds, all answer": (strategies.FedAvg(), turnout.Rounds()),
    "FedAvg, first half, late dropped": (strategies.FedAvg(), turnout.Rounds(quorum=0.5)),
    "FedAvg, first half, late kept": (strategies.FedAvg(), turnout.Rounds(quorum=0.5, late="keep")),
    "FedBuff, 50 at work": (strategies.FedBuff(), FEW),
    "FedBuff, all at work": (strategies.FedBuff(), ALL),
    "FedAsync, all at work": (strategies.FedAsync(), turnout.Buffered(1)),
    "Unbiased (told π), all at work": (strategies.Unbiased(), ALL),
    "FedAU, all at work": (strategies.FedAU(), ALL),
    "MIFA, all at work": (strategies.MIFA(), ALL),
    "CA²FL, all at work": (strategies.CA2FL(), ALL),
    "LastWord, all at work": (strategies.LastWord(), ALL),
    "LastWord, first half, late kept": (strategies.LastWord(), turnout.Rounds(quorum=0.5, late="keep")),
}
STORED = Path(__file__).parents[1] / "docs" / "results" / "whom.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    is_slow = np.asarray(SLOW.ticks) >= 6
    rows: dict[str, dict[str, dict[str, float | None]]] = {name: {} for name in SERVERS}
    for name, (strategy, pace) in SERVERS.items():
        for place, here in WORLDS.items():
            world = turnout.World(here, durations=SLOW)
            trial = {name: turnout.Trial(strategy, world, pace=pace)}
            played = audit(trial, given.ticks, given.seeds)
            formula = expected(strategy, pace, here)
            rows[name][place] = shares("played", played, is_slow) | shares("formula", formula, is_slow)
            print(f"{name:34}{place:14}", *(f"{key} {value:.1%}  " for key, value in rows[name][place].items()))
    if given.store:
        about = {"ticks": given.ticks, "seeds": given.seeds, "command": "python benchmarks/whom.py --store"}
        STORED.write_text(json.dumps({"about": about, "servers": rows}, indent=1, ensure_ascii=False) + "\n")


def audit(trial: dict[str, turnout.Trial], ticks: int, seeds: int) -> np.ndarray:
    import jax.numpy as jnp

    from turnout.auditor.auditing import audit_trials
    from turnout.types import Fleet

    return audit_trials(Fleet(jnp.ones(COUNT)), trial, rounds=ticks, seeds=seeds).entries[0].weights


def expected(strategy: object, pace: object, here: object) -> np.ndarray | None:
    """By the formulas, for the methods whose coefficients they know."""
    exponent = 0.5 if isinstance(strategy, strategies.FedBuff | strategies.FedAsync) else 0.0
    pi, lam = (np.asarray(each, np.float64) for each in (here.stationary(), here.correlation()))
    coefficients = 1 / pi if isinstance(strategy, strategies.Unbiased) else np.ones(COUNT)
    known = (strategies.FedAvg, strategies.FedBuff, strategies.FedAsync, strategies.Unbiased)
    if not isinstance(strategy, known):
        return None
    arrivals = theory.pace_arrivals(pace, pi, lam, np.asarray(SLOW.ticks), exponent=exponent)
    return theory.effective_in_time(arrivals, coefficients, average=isinstance(strategy, strategies.FedAvg))


def shares(kind: str, weights: np.ndarray | None, is_slow: np.ndarray) -> dict[str, float]:
    if weights is None:
        return {}
    weights = law("weights", weights)
    return {
        f"{kind} slow": float(weights[is_slow].sum()),
        f"{kind} off": theory.total_variation(np.ones(COUNT), weights),
    }


if __name__ == "__main__":
    main()
