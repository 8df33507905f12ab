"""All files of a training, and when they are written: checkpoint, run folder and participation log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from turnout.flower.fleet.sessions import Sessions
from turnout.flower.run import checkpoint
from turnout.flower.run.chronicle import Chronicle, ParticipationLog, RunFolder
from turnout.flower.server.driver import Driver
from turnout.flower.server.inspector import Inspector
from turnout.flower.server.turn import RoundRecord
from turnout.flower.settings import Files

log = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning


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

    def durable_round(self, t: int) -> int:
        """Number of the t rounds so far that a restarted server would remember.

        Without a checkpoint it is all of them: it would begin another run, and no client must keep anything for this.
        """
        return t if self._saved < 0 else self._saved

    def open(self, driver: Driver) -> None:
        """Continue from the checkpoint if there is one, and prepare the other files."""
        if self.checkpoint is not None and checkpoint.resume(self.checkpoint, driver, self.chronicle, self._inspector):
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
            checkpoint.save(self.checkpoint, driver, self.chronicle, self._inspector)
            self._saved = driver.t
