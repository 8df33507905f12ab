"""How far participation is from uniform as the minimum separation grows, exactly."""

from __future__ import annotations

import numpy as np

from turnout.theory import separation_curve
from turnout.workbench.reproduction.measures import Curve


def separation_bias(num_clients: int = 500, batch: int = 1, seeds: int = 10) -> list[Curve]:
    """‖π_R − 1/N‖₁ for every possible R; a seed draws weights p, uniform between 0 and 1."""
    rows = []
    for seed in range(seeds):
        weights = 1 - np.random.default_rng(seed).random(num_clients)  # in (0, 1]
        shares = separation_curve(weights, batch)
        rows.append(np.abs(shares - 1 / num_clients).sum(axis=1))
    separations = np.arange(num_clients // batch)
    return [Curve("", "random weights", "distance", separations, tuple(range(seeds)), np.array(rows))]
