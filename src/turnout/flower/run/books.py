"""All that a training writes down: chronicle, checkpoint, run folder and participation log, and when."""

from __future__ import annotations

import logging
from pathlib import Path

from turnout.flower.run.chronicle import Chronicle
from turnout.flower.run.participation import ParticipationLog
from turnout.flower.run.run_folder import RunFolder
from turnout.flower.server import checkpoint as checkpoints
from turnout.flower.server.compiled_round import RoundRecord
from turnout.flower.server.driver import Driver

log = logging.getLogger("flwr")  # what is no warning is seen only in Flower's own log


class Books:
    """Kept in this order, so that nothing is in the folder of which the checkpoint does not know."""

    def __init__(
        self,
        checkpoint: Path | None,
        every: int,
        folder: RunFolder | None,
        participation: ParticipationLog | None,
    ) -> None:
        if every < 1:
            raise ValueError(f"checkpoint_every must be 1 or more rounds, not {every}")
        self.chronicle = Chronicle()
        self.checkpoint = checkpoint
        self._every = every
        self._folder = folder
        self._participation = participation
        self._saved = -1  # round of the last checkpoint

    def durable_round(self, t: int) -> int:
        """How many of the t rounds so far a server that is started again will know of.

        Without a checkpoint it is all of them: it would begin another run, and nobody need keep anything for this one.
        """
        return t if self._saved < 0 else self._saved

    def open(self, driver: Driver) -> None:
        """Go on from the checkpoint where there is one, and make sure that there is room for the rest."""
        if self.checkpoint is not None and checkpoints.resume(self.checkpoint, driver, self.chronicle):
            log.info("Going on after round %d with %d clients", driver.t, len(driver.directory))
            self._saved = driver.t
        if self._folder is not None:
            self._folder.claim(self.chronicle.run_id, driver.t)
        if self._participation is not None:
            self._participation.cut(driver.t)

    def add(self, driver: Driver, record: RoundRecord, seconds: float, dropped: int) -> None:
        """A round that was closed; the checkpoint is written at once, the folder once the model was evaluated."""
        self.chronicle.add(record, seconds, dropped)
        if self._participation is not None:  # first: a round beyond the checkpoint is cut, a missing one is lost
            self._participation.add(record)
        if self._folder is not None:
            self._folder.add(record)
        if driver.t % self._every == 0:
            self._save(driver)

    def write(self, driver: Driver, evaluate_every: int) -> None:
        """The folder, if its time has come."""
        if self._folder is not None and driver.t and (driver.t % self._every == 0 or not self._folder.is_there):
            self._folder.write(driver, self.chronicle, evaluate_every)

    def close(self, driver: Driver, evaluate_every: int) -> None:
        """Everything as it is at the end."""
        if driver.t != self._saved:
            self._save(driver)
        if self._folder is not None and driver.t:
            self._folder.write(driver, self.chronicle, evaluate_every)

    def _save(self, driver: Driver) -> None:
        if self.checkpoint is not None:
            checkpoints.save(self.checkpoint, driver, self.chronicle)
            self._saved = driver.t
