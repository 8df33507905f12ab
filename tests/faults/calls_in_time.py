"""Public calls about work that takes time, that are right: durations, paces, and the formulas of `turnout.theory`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from public_calls import CLIENTS, PROCESS, TASK, WEIGHTS, WORLD, Call, N

import turnout
from turnout import durations, paces, strategies, testing, theory

CHAINS = {"pi": [0.5] * CLIENTS, "lam": 0.2, "durations": [0, 1, 2, 0, 1, 2], "leaving": "continue"}
TICKS = {"leaving": "pause", "tick_seconds": 60.0}
BUFFERED = theory.buffered_arrivals(0.5, 0.2, [1] * 12, size=2)
ROUNDS = theory.round_arrivals(0.5, 0.2, [1] * CLIENTS)
ASYNC = theory.buffered_arrivals(0.5, 0.2, [1] * CLIENTS, size=1, exponent=0.5)


def keep(pace: Any) -> Any:
    return turnout.simulate(TASK, WORLD, strategies.FedAvg(), rounds=12, pace=pace)


def last(law: Any) -> Any:
    world = turnout.World(PROCESS, durations=law)
    return turnout.simulate(TASK, world, strategies.FedAvg(), rounds=12)


def arrivals_file():
    """A table of answers of nodes, one row per client."""
    path = Path(tempfile.mkdtemp()) / "arrivals.parquet"
    rows = {"place": list(range(CLIENTS)), "tick": [0] * CLIENTS, "seconds": [2.5] * CLIENTS}
    pl.DataFrame(rows | {"outcome": ["used"] * CLIENTS}).write_parquet(path)
    return str(path)


DURATIONS = {
    "fixed": N | {"ticks": [0, 1, 2, 3, 4, 5]} | TICKS,
    "drawn": N | {"median": 3.0, "sigma": 0.5, "low": 1, "high": 9, "seed": 0} | TICKS,
    "lognormal": N | {"median": 3.0, "sigma": [0.5] * CLIENTS, "most": 30.0} | TICKS,
    "timed": N
    | {"tick_seconds": 60.0, "per_step": 5.0, "download": 1.0, "upload": 2.0, "sigma": 0.1, "leaving": "abort"},
    "resampled": N | {"seconds": [[30.0, 90.0]] * CLIENTS, "tick_seconds": 60.0, "leaving": "continue"},
    "recorded": N | {"arrivals": arrivals_file(), "tick_seconds": 1.0, "leaving": "continue"},
}
PACES = {
    "Rounds": {"quorum": 0.5, "deadline": 4, "late": "keep", "concurrency": 3},
    "Buffered": {"size": 2, "concurrency": 4},
    "Clocked": {"every": 3, "concurrency": 4},
}
FORMULAS = {
    "work_times": CHAINS,
    "buffered_arrivals": CHAINS | {"size": 2, "concurrency": 4, "odds": None, "exponent": 0.5},
    "round_arrivals": CHAINS | {"quorum": 0.5, "deadline": 5, "late": "keep", "exponent": 0.5},
    "clocked_arrivals": CHAINS | {"every": 3, "exponent": 0.5},
    "pace_arrivals": CHAINS | {"pace": paces.Buffered(2), "exponent": 0.5},
    "effective_in_time": {"arrivals": ROUNDS, "coefficients": WEIGHTS, "average": True},
    "unbiased_coefficients": {"arrivals": ROUNDS, "target": WEIGHTS},
    "weighing_efficiency": {"arrivals": ROUNDS, "target": WEIGHTS},
    "fair_odds": CHAINS | {"target": WEIGHTS, "concurrency": 1, "size": 1},
    "most_at_work_by_choice": CHAINS | {"target": WEIGHTS, "size": 1},
    "queued_rates": {"odds": WEIGHTS, "durations": [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], "tasks": 3},
    "fedasync_model": {"arrivals": ASYNC, "mixing": 0.5},
    "word_ages": {"arrivals": BUFFERED},
}
CHECKS = {
    "check_durations": {"durations": durations.fixed(CLIENTS, 2), "steps": 2, "draws": 50},
    "check_pace": {"pace": paces.Buffered(2), "num_clients": CLIENTS, "ticks": 20},
}
IN_TIME = (
    {f"durations.{name}": Call(getattr(durations, name), arguments, last) for name, arguments in DURATIONS.items()}
    | {f"paces.{name}": Call(getattr(paces, name), arguments, keep) for name, arguments in PACES.items()}
    | {f"theory.{name}": Call(getattr(theory, name), arguments) for name, arguments in FORMULAS.items()}
    | {f"testing.{name}": Call(getattr(testing, name), arguments) for name, arguments in CHECKS.items()}
    | {
        "simulate in time": Call(
            turnout.simulate,
            {"task": TASK, "world": WORLD, "strategy": strategies.FedBuff(), "rounds": 2, "pace": paces.Buffered(2)},
        ),
        "audit in time": Call(
            turnout.audit,
            {"world": WORLD, "strategies": [strategies.FedAvg()], "importance": WEIGHTS, "rounds": 9}
            | {"pace": paces.Rounds(0.5)},
        ),
        "World in time": Call(
            turnout.World,
            {"availability": PROCESS, "durations": np.int64(2)},
            lambda world: turnout.simulate(TASK, world, strategies.FedAvg(), rounds=4),
        ),
    }
)
