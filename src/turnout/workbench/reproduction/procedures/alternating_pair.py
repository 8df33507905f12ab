"""Two clients that take turns: the limit of FedAvg, and how fast FedLaAvg converges to the optimum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnout.availability import alternating
from turnout.metrics import DISTANCE
from turnout.simulator import simulate_trials
from turnout.simulator.history import History
from turnout.simulator.local_training import Local
from turnout.simulator.trial import Trial
from turnout.strategies import FedAvg, FedLaAvg, Strategy
from turnout.tasks.two_clients import two_clients
from turnout.theory import alternating_limit, fedlaavg_alternating_bound
from turnout.workbench.reproduction.measures import Curve
from turnout.world import World


def alternating_pair(
    centres: Sequence[float] = (0.0, 10.0),
    start: float = 0.0,
    stays: Sequence[int] = (3, 1),
    rates: Sequence[float] = (0.003, 0.01, 0.03, 0.1, 0.3),
    periods: int = 1000,
    horizons: Sequence[int] = (100, 400, 1600, 6400),
) -> list[Curve]:
    """Panel "limit": distance to the optimum over the rate γ, of FedAvg after so many periods and of its exact limit.

    Panel "convergence": mean of (x − x*)² over T rounds with γ = 1/(2√T), and the bound on FedLaAvg's. The metrics
    "off_limit" and "share_of_bound" have how far the former is from its formula, as a share of it, and the latter from
    its bound.
    """
    pair = _Pair((centres[0], centres[1]), start, stays[0], stays[1])
    settled = np.array([run.metrics[DISTANCE][0, -1] for run in pair.play([FedAvg()], rates, periods * pair.period)])
    means = [[pair.mean_square(run) for run in pair.play([FedAvg(), FedLaAvg()], [_rate(t)], t)] for t in horizons]
    fedavg, fedlaavg = (np.array(row) for row in zip(*means, strict=True))
    limits, bounds = np.array([pair.limit(rate) for rate in rates]), np.array([pair.bound(t) for t in horizons])
    return [
        _curve("limit", "FedAvg", DISTANCE, rates, settled),
        _curve("limit", "formula", DISTANCE, rates, limits),
        _curve("limit", "FedAvg", "off_limit", rates, np.abs(settled - limits) / limits),
        _curve("convergence", "FedAvg", "squared_distance", horizons, fedavg),
        _curve("convergence", "FedLaAvg", "squared_distance", horizons, fedlaavg),
        _curve("convergence", "bound", "squared_distance", horizons, bounds),
        _curve("convergence", "FedLaAvg", "share_of_bound", horizons, fedlaavg / bounds),
    ]


class _Pair:
    """Two clients, the first there for some rounds and then the second."""

    def __init__(self, centres: tuple[float, float], start: float, first_stay: int, second_stay: int) -> None:
        self.centres, self.start = centres, start
        self.stays = {"first_stay": first_stay, "second_stay": second_stay}
        self.period = first_stay + second_stay
        self.task = two_clients(*centres, start)
        self.world = World(alternating(2, first_stay, second_stay), compute=1)

    def play(self, strategies: Sequence[Strategy], rates: Sequence[float], rounds: int) -> list[History]:
        trials = [
            Trial(strategy, self.world, Local(learning_rate=rate, batch_size=1))
            for strategy in strategies
            for rate in rates
        ]
        return simulate_trials(self.task, trials, rounds=rounds, metrics=[DISTANCE])

    def mean_square(self, run: History) -> float:
        return float(np.mean(run.metrics[DISTANCE][0, :-1].astype(np.float64) ** 2))  # x⁰ … x^{T−1}

    def limit(self, rate: float) -> float:
        model = alternating_limit(learning_rate=rate, centres=self.centres, **self.stays)
        return abs(model - sum(self.centres) / 2)

    def bound(self, rounds: int) -> float:
        return fedlaavg_alternating_bound(
            learning_rate=_rate(rounds), rounds=rounds, centres=self.centres, start=self.start, **self.stays
        ).total


def _rate(rounds: int) -> float:
    return 0.5 / rounds**0.5


def _curve(panel: str, label: str, metric: str, x: Sequence[float] | Sequence[int], values: np.ndarray) -> Curve:
    return Curve(panel, label, metric, np.asarray(x, np.float64), (0,), values[None].astype(np.float64))
