"""The way back to the last good model, when a round makes the evaluation collapse."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from turnout.flower.server.driver import Driver
from turnout.metrics import TEST_ACCURACY, TEST_LOSS, usual_name
from turnout.server.server import ServerState

log = logging.getLogger("turnout.flower")

_COMPARED = 5  # evaluations of good models
_FEWEST = 3  # below these many nothing is compared
_FURTHER = 2.0  # how far beyond the worst of them, in units of their range
_SMALLEST_RANGE = {TEST_LOSS: 0.5, TEST_ACCURACY: 0.15}  # of a loss as a share of the worst, of an accuracy as it is
_MOST_IN_A_ROW = 3  # then the world has changed, and the model is taken as it is

Badness = dict[str, float]  # by metric: the loss, or one minus the accuracy; infinite where it is not a number


class Rollback:
    """Judges evaluations by those before, and takes the server back where one is far beyond them."""

    def __init__(self, active: bool) -> None:
        self.active = active
        self.happened: list[int] = []  # rounds after which the server went back
        self._good: dict[str, list[float]] = {}  # by who evaluated and by metric
        self._fresh: dict[str, float] = {}  # of the present model
        self._kept: tuple[int, ServerState] | None = None
        self._in_a_row = 0

    def keep_good(self, driver: Driver) -> None:
        """Keep the present model if it was evaluated, and found good; to be called before a round opens."""
        if self._fresh and (state := driver.keep()) is not None:
            self._kept, self._in_a_row = (driver.t, state), 0
            for source, value in self._fresh.items():
                self._good[source] = [*self._good.get(source, []), value][-_COMPARED:]
        self._fresh = {}

    def has_left(self, t: int) -> bool:
        """Whether the server went back after t rounds."""
        return t in self.happened

    def judge(self, driver: Driver, evaluator: str, badness: Badness) -> bool:
        """Take in an evaluation of the present model; returns whether the server went back to another."""
        if not self.active or self.has_left(driver.t):
            return False
        metric = next((name for name in (TEST_LOSS, TEST_ACCURACY) if name in badness), None)
        if metric is None:
            return False
        source = f"{evaluator} {metric}"
        if self._kept is None or not has_collapsed(metric, badness[metric], self._good.get(source, [])):
            self._fresh[source] = badness[metric]
            return False
        return self._go_back(driver, f"the {metric} by the {evaluator} has collapsed", *self._kept)

    def _go_back(self, driver: Driver, why: str, t: int, kept: ServerState) -> bool:
        self._fresh = {}
        if self._in_a_row >= _MOST_IN_A_ROW:
            log.error("round %d: %s again; the model is taken as it is from now on", driver.t, why)
            self._good, self._in_a_row = {}, 0
            return False
        log.error("round %d: %s; the server goes back to the model after round %d", driver.t, why, t)
        driver.go_back(kept)
        self._in_a_row += 1
        self.happened.append(driver.t)
        return True


def has_collapsed(metric: str, value: float, good: Sequence[float]) -> bool:
    """Whether a value is far beyond the worst of the last good ones."""
    if len(good) < _FEWEST:
        return False
    worst, best = max(good), min(good)
    smallest = _SMALLEST_RANGE[metric] * (abs(worst) if metric == TEST_LOSS else 1.0)
    return not value <= worst + _FURTHER * max(worst - best, smallest)


def badness_of(metrics: Mapping[str, Any]) -> Badness:
    """Loss and accuracy among the metrics of one evaluation, so that less is better."""
    found = {}
    for name, value in metrics.items():
        if (metric := usual_name(name)) in _SMALLEST_RANGE:
            number = float(value) if isinstance(value, int | float) and math.isfinite(value) else math.inf
            found[metric] = 1.0 - number if metric == TEST_ACCURACY else number
    return found


def typical(by_client: Mapping[str, Badness], driver: Driver) -> Badness:
    """The median over the clients, weighted by the target: a few that lie about their evaluation do not move it."""
    by_metric: dict[str, dict[str, float]] = {}
    for name, badness in by_client.items():
        for metric, value in badness.items():
            by_metric.setdefault(metric, {})[name] = value
    return {metric: _median(values, driver) for metric, values in by_metric.items()}


def _median(values: Mapping[str, float], driver: Driver) -> float:
    names = sorted(values, key=lambda name: values[name])
    worths = np.cumsum([driver.places.worth(name) for name in names])
    return values[names[int(np.searchsorted(worths, worths[-1] / 2))]]
