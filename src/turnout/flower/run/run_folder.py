"""The run folder of a training on real nodes, like that of `turnout run`, but growing with the rounds."""

from __future__ import annotations

import json
from pathlib import Path

from turnout.experiment import deployed, store
from turnout.experiment.errors import ExperimentError
from turnout.experiment.run import Outcome, Run
from turnout.experiment.store import LOG
from turnout.experiment.sweep import points
from turnout.files.whole import free_folder
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.run.participation import ParticipationLog
from turnout.flower.server.compiled_round import RoundRecord
from turnout.flower.server.driver import Driver


class RunFolder:
    """A folder that `turnout report` and `turnout diagnose` read, at any time.

    It is complete from the first round on, and each of its files is replaced as a whole. Its contents come from the
    chronicle, so a server that was restarted from a checkpoint writes the same as one that never stopped.
    """

    def __init__(self, path: str | Path, identity: str, target: str) -> None:
        self.path = Path(path)
        self._notes = {"deployed": True, "identity": identity, "target": target}
        self._log = ParticipationLog(self.path / LOG)
        self._waiting: list[RoundRecord] = []  # rounds before there is a folder for the log

    def claim(self, run_id: str, t: int) -> None:
        """Make sure that the folder is free, or holds the first t rounds of this very run."""
        self._notes["run"] = run_id
        if t == 0 or not self.is_there:
            free_folder(self.path)
            return
        if json.loads((self.path / "run.json").read_text(encoding="utf-8")).get("run") != run_id:
            raise ExperimentError(f"{self.path}: holds another run than the checkpoint's: choose another folder")
        self._log.cut(t)

    def add(self, record: RoundRecord) -> None:
        """Add a round to the participation log, to which rows are only appended."""
        self._waiting.append(record)
        if (self.path / LOG).exists():
            self._flush()

    @property
    def is_there(self) -> bool:
        """Whether there is a run in the folder."""
        return (self.path / "run.json").exists()

    def write(self, driver: Driver, chronicle: Chronicle, evaluate_every: int) -> None:
        """Write the folder as of now."""
        run = self._run(driver, chronicle, evaluate_every)
        if self.is_there:
            store.renew(run, self.path)
        else:
            store.save(run, self.path, extra=lambda _run, work: ParticipationLog(work / LOG).cut(0))
        self._flush()

    def _flush(self) -> None:
        for record in self._waiting:
            self._log.add(record)
        self._waiting.clear()

    def _run(self, driver: Driver, chronicle: Chronicle, evaluate_every: int) -> Run:
        experiment = deployed.described(
            driver.strategy,
            num_clients=len(driver.directory),
            rounds=driver.t,
            seed=driver.seed,
            evaluate_every=max(1, evaluate_every),
            local=driver.local,
            server=driver.settings,
        )
        (point,) = points(experiment)
        outcome = Outcome.of(point, chronicle.history(driver), names=driver.directory.names)
        return Run(experiment, (outcome,), chronicle.seconds, self._notes)
