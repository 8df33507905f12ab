"""Whom servers train for where work takes time: audits without training, beside the formulas."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from turnout import strategies
from turnout.auditor.in_time import formula_in_time
from turnout.auditor.voting import play_trials
from turnout.availability import bernoulli, two_classes
from turnout.paces import Buffered, Pace, Rounds
from turnout.simulator.trial import Trial
from turnout.theory import total_variation
from turnout.types import Fleet
from turnout.workbench.reproduction.curve_table import Curve
from turnout.world import World
from turnout.world.durations import drawn

SLOW = 6  # ticks beyond the first, or more
ALL, FEW, HALF, HALF_KEPT = Buffered(10), Buffered(10, 50), Rounds(quorum=0.5), Rounds(quorum=0.5, late="keep")
SERVERS: dict[str, tuple[strategies.Strategy, Pace]] = {
    "FedAvg, rounds, all answer": (strategies.FedAvg(), Rounds()),
    "FedAvg, first half, late dropped": (strategies.FedAvg(), HALF),
    "FedAvg, first half, late kept": (strategies.FedAvg(), HALF_KEPT),
    "FedBuff, 50 at work": (strategies.FedBuff(), FEW),
    "FedBuff, all at work": (strategies.FedBuff(), ALL),
    "FedAsync, all at work": (strategies.FedAsync(), Buffered(1)),
    "Unbiased (told π), all at work": (strategies.Unbiased(), ALL),
    "FedAU, all at work": (strategies.FedAU(), ALL),
    "FedAU without a cut-off, all at work": (strategies.FedAU(cutoff=float("inf")), ALL),
    "MIFA, all at work": (strategies.MIFA(), ALL),
    "FedVARP, all at work": (strategies.FedVARP(), ALL),
    "CA²FL, all at work": (strategies.CA2FL(), ALL),
    "ACE, all at work": (strategies.ACE(), Buffered(1)),
    "LastWord, all at work": (strategies.LastWord(), ALL),
    "LastWord, first half, late kept": (strategies.LastWord(), HALF_KEPT),
}


def whom_in_time(
    num_clients: int = 100,
    median: float = 5.0,
    sigma: float = 0.9,
    longest: int = 20,
    draw: int = 3,
    ticks: int = 5000,
    seeds: int = 5,
) -> list[Curve]:
    """Share of the weight that the slow clients get, and weight on the wrong clients, by server and world.

    Durations are log-normal, of 1 to `longest` ticks beyond the first, drawn once per client by the seed `draw`. All
    clients should count alike. Metrics "by_formula_…" have what `turnout.theory` says without a run.
    """
    slow = drawn(num_clients, median, sigma, 1, longest, draw)
    is_slow = np.asarray(slow.ticks) >= SLOW
    worlds = {
        "always there": World(bernoulli(num_clients, 1.0), durations=slow),
        "two classes": World(two_classes(num_clients, shuffle=True), durations=slow),
    }
    fleet, curves = Fleet(jnp.ones(num_clients)), []
    for panel, world in worlds.items():
        trials = {label: Trial(strategy, world, pace=pace) for label, (strategy, pace) in SERVERS.items()}
        played = play_trials(fleet, list(trials.values()), rounds=ticks, seeds=seeds)
        for (label, trial), votes in zip(trials.items(), played, strict=True):
            curves += _curves(panel, label, "", np.asarray(votes.counted, np.float64).sum(axis=1), is_slow)
            if (formula := formula_in_time(trial, fleet)) is not None:
                curves += _curves(panel, label, "by_formula_", formula[None], is_slow)
    return curves


def _curves(panel: str, label: str, kind: str, weights: np.ndarray, is_slow: np.ndarray) -> Iterator[Curve]:
    """Of weights (seed, client)."""
    shares = weights[:, is_slow].sum(axis=1) / weights.sum(axis=1)
    wrong = np.array([total_variation(np.ones(len(each)), each) for each in weights])
    for name, values in (("slow_share", shares), ("off_target", wrong)):
        yield Curve(panel, label, f"{kind}{name}", np.zeros(1), tuple(range(len(weights))), values[:, None])
