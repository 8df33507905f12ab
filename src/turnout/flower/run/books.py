"""All files of a training, when they are written, and when the model is evaluated and its rounds are timed."""

import logging
import statistics
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnout.flower.fleet.directory import Sessions
from turnout.flower.run import checkpoint
from turnout.flower.run.chronicle import Chronicle, ParticipationLog, RunFolder
from turnout.flower.server.driver import Driver
from turnout.flower.server.flow import Flow
from turnout.flower.server.inspector import Inspector
from turnout.flower.server.rollback import Badness, Rollback, badness_of, typical
from turnout.flower.server.turn import RoundRecord
from turnout.flower.settings import Files

log = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning
_SHORT = 30.0  # seconds: no fleet changes within less, so shorter rounds count as equal
_REMEMBERED = 101  # rounds
_LARGEST = 1e30  # of a metric that is averaged
_MOST = 20.0  # usual rounds: after longer ones all memory of a client's state is lost anyway


class Books:
    """Written in this order, so that the folder is never ahead of the checkpoint.

    `notes` are for the run folder to say: how clients were recognised, and the target.
    """

    def __init__(
        self, files: Files, notes: Mapping[str, str], inspector: Inspector, sessions: Sessions | None = None
    ) -> None:
        self.chronicle = Chronicle(sessions)
        self.checkpoint = None if files.checkpoint is None else Path(files.checkpoint)
        self._every = files.every
        self._folder = None if files.record is None else RunFolder(files.record, notes)
        self._participation = None if files.participation is None else ParticipationLog(files.participation)
        self._inspector = inspector
        self._saved = -1  # round of the last checkpoint

    @property
    def flow(self) -> Flow | None:
        """Work under way, where the server does not wait for rounds."""
        return self.chronicle.flow

    def durable_round(self, t: int) -> int:
        """Number of the t rounds so far that a restarted server would remember.

        Without a checkpoint it is all of them: it would begin another run, and no client must keep anything for this.
        """
        return t if self._saved < 0 else self._saved

    def open(self, driver: Driver) -> None:
        """Continue from the checkpoint if there is one, and prepare the other files."""
        if self.checkpoint is not None and checkpoint.resume(
            self.checkpoint, driver, self.chronicle, self._inspector, self.flow
        ):
            log.info("Going on after round %d with %d clients", driver.t, len(driver.directory))
            driver.note_gap()
            self._saved = driver.t
        if self._folder is not None:
            self._folder.claim(self.chronicle.run_id, driver.t)
        if self._participation is not None:
            self._participation.cut(driver.t)

    def add(self, driver: Driver, record: RoundRecord, seconds: float, dropped: int) -> None:
        """Record a closed round; the checkpoint is written at once, the folder once the model was evaluated."""
        self.chronicle.add(record, seconds, dropped)
        if self._participation is not None:  # first: a restart can cut rounds from it, but not add missing ones
            self._participation.add(record)
        if self._folder is not None:
            self._folder.add(record)
        if driver.t % self._every == 0:
            self._save(driver)

    def renew(self, driver: Driver) -> None:
        """Write the checkpoint of this round again, with a model that was changed after the round."""
        if driver.t == self._saved:
            self._save(driver)

    def write(self, driver: Driver, evaluate_every: int) -> None:
        """Write the folder, if it is due."""
        if self._folder is not None and driver.t and (driver.t % self._every == 0 or not self._folder.is_there):
            self._folder.write(driver, self.chronicle, evaluate_every)

    def close(self, driver: Driver, evaluate_every: int) -> None:
        """Write everything at the end of the training."""
        if driver.t != self._saved:
            self._save(driver)
        if self._folder is not None and driver.t:
            self._folder.write(driver, self.chronicle, evaluate_every)

    def _save(self, driver: Driver) -> None:
        if self.checkpoint is not None:
            checkpoint.save(self.checkpoint, driver, self.chronicle, self._inspector, self.flow)
            self._saved = driver.t


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

    def add(self, driver: Driver, metrics: Mapping[str, Mapping[str, Any]], t: int | None = None) -> dict[str, float]:
        """Add what each client reports on the model after t rounds, the present one if not given.

        Returns the means, weighted by the target.
        """
        by_metric = numbers_in(metrics)
        means = means_by_target(by_metric, driver)
        self._books.chronicle.add_evaluation(driver.t if t is None else t, means, by_metric, len(driver.directory))
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


class Tempo:
    """Times at which rounds have begun."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self.span = 1.0  # from the begin of the last round to the begin of this one, in usual rounds

    def begin(self, now: float) -> None:
        """Note that a round begins now."""
        if self._last is not None:
            length = max(now - self._last, _SHORT)
            self._lengths.append(length)
            self.span = min(length / statistics.median(self._lengths), _MOST)
        self._last = now


def numbers_in(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Metrics of the clients by name and client; values that are not numbers, or far too large, are left out."""
    by_metric: dict[str, dict[str, float]] = {}
    for name, values in metrics.items():
        for metric, value in values.items():
            if not metric.startswith("turnout.") and isinstance(value, int | float) and abs(value) <= _LARGEST:
                by_metric.setdefault(metric, {})[name] = float(value)
    return by_metric


def means_by_target(by_metric: Mapping[str, Mapping[str, float]], driver: Driver) -> dict[str, float]:
    """The mean of each metric over the clients that have a value, weighted by the target."""
    means = {}
    for metric, values in by_metric.items():
        worths = {name: driver.places.worth(name) for name in values}
        means[metric] = sum(worths[name] * value for name, value in values.items()) / sum(worths.values())
    return means
