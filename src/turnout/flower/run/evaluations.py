"""Evaluations of the model in one training: when clients are asked for one, and what becomes of the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnout.flower.run.books import Books
from turnout.flower.server.driver import Driver
from turnout.flower.server.rollback import Badness, Rollback, badness_of, typical
from turnout.flower.wire.collecting import means_by_target, numbers_in


class Evaluations:
    """Records evaluations by the clients and by the server, and goes back to the last good model if one collapses."""

    def __init__(self, every: int, books: Books, rollback: Rollback) -> None:
        self.last: int | None = None  # round after which training ends
        self._every = every
        self._books = books
        self._rollback = rollback

    def is_due(self, t: int) -> bool:
        """Whether clients evaluate the model after t rounds."""
        return self._every > 0 and (t % self._every == 0 or t == self.last)

    def is_missing(self, t: int) -> bool:
        """Whether clients should evaluate the model after t rounds, and did not do so before a crash."""
        return self.is_due(t) and not self._books.chronicle.is_evaluated(t)

    def add(self, driver: Driver, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """Add what each client reports on the present model; returns the means, weighted by the target."""
        by_metric = numbers_in(metrics)
        means = means_by_target(by_metric, driver)
        self._books.chronicle.add_evaluation(driver.t, means, by_metric, len(driver.directory))
        self._judge(driver, "clients", typical({name: badness_of(own) for name, own in metrics.items()}, driver))
        self._books.write(driver, self._every)
        return means

    def add_central(self, driver: Driver, metrics: Mapping[str, Any]) -> None:
        """Add the server's own evaluation of the present model."""
        self._books.chronicle.add_central(driver.t, metrics)
        self._judge(driver, "server", badness_of(metrics))

    def _judge(self, driver: Driver, evaluator: str, badness: Badness) -> None:
        if self._rollback.judge(driver, evaluator, badness):
            self._books.renew(driver)
