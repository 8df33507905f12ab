"""What is kept of a training on real nodes: its history, a log of who took part, and the run folder made from both."""

import csv
import datetime
import io
import json
import math
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl

from turnout.files.whole import durable_file, free_folder
from turnout.flower.fleet.directory import SESSION_COLUMNS, Sessions
from turnout.flower.run.estimates import estimated_columns
from turnout.flower.server.driver import Driver
from turnout.flower.server.flow import Flow
from turnout.flower.server.turn import RoundRecord
from turnout.flower.wire.layout import Arrays
from turnout.metrics import BYTES_UPLOADED, OF_NODES, TEST_ACCURACY, TRAIN_LOSS, WORST_DECILE, usual_name
from turnout.simulator.history import History
from turnout.tasks.base import worst_decile
from turnout.workbench.experiment import deployed, store
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.experiment.store import LOG, SESSIONS
from turnout.workbench.experiment.sweep import points

ByRound = dict[str, dict[int, float]]  # values by metric and by the number of rounds before


class Chronicle:
    """Records of every round, metrics where they were reported, and the last metrics of every client.

    It grows by a few numbers per round, and is part of a checkpoint: a training that is restarted has one history.
    """

    def __init__(self, sessions: Sessions | None = None) -> None:
        self.sessions = Sessions() if sessions is None else sessions
        self.records: dict[str, list[float]] = {record.name: [] for record in OF_NODES}
        self.by_clients: ByRound = {}  # means of the clients' metrics
        self.central: ByRound = {}  # metrics of the server's own evaluation
        self.losses: dict[int, float] = {}  # during local work
        self.latest: dict[str, dict[str, float]] = {}  # the last value by metric and client
        self.flow: Flow | None = None  # work under way, where the server does not wait for rounds
        self.seconds = 0.0
        self.run_id = uuid.uuid4().hex

    def add(self, record: RoundRecord, seconds: float, dropped: int) -> None:
        """Add a closed round."""
        numbers = {
            "available": len(record.available),
            "cohort": len(record.asked),
            "uploads": len(record.uploads),
            "arrived": len(record.arrived),
            "weight_sum": sum(record.weights.values()),
            "local_steps": record.steps,
            "seconds": seconds,
            "dropped": dropped,
        }
        for name, number in numbers.items():
            self.records[name].append(float(number))
        self.records[BYTES_UPLOADED].append(record.bytes_uploaded)  # a whole number, of any size
        if record.loss is not None:
            self.losses[record.t + 1] = record.loss
        self.seconds += seconds

    def add_evaluation(
        self, t: int, means: Mapping[str, float], by_client: Mapping[str, Mapping[str, float]], num_clients: int
    ) -> None:
        """Add the clients' metrics of the model after t rounds: means, and each client's own values by metric."""
        for name, value in means.items():
            self.by_clients.setdefault(usual_name(name), {})[t] = value
        for name, values in by_client.items():
            self.latest.setdefault(usual_name(name), {}).update(values)
            if usual_name(name) == TEST_ACCURACY and values:
                self.by_clients.setdefault(WORST_DECILE, {})[t] = _worst_decile(values, num_clients)

    def is_evaluated(self, t: int) -> bool:
        """Whether clients have evaluated the model after t rounds."""
        return any(t in values for values in self.by_clients.values())

    def add_central(self, t: int, metrics: Mapping[str, Any]) -> None:
        """Add the server's own evaluation of the model after t rounds."""
        for name, value in metrics.items():
            if isinstance(value, int | float):
                self.central.setdefault(name, {})[t] = float(value)

    def history(self, driver: Driver) -> History:
        """Everything as a history of one seed."""
        evaluated, names = self._evaluated(driver.t), driver.directory.names
        own = {
            metric: np.array([[values.get(name, math.nan) for name in names]]) for metric, values in self.latest.items()
        }
        estimates, importance = estimated_columns(driver), np.array(driver.importance)[driver.places.taken]
        pi, lam = estimates.pop("pi", None), estimates.pop("lam", None)
        by_client = driver.sums() | estimates | ({} if self.flow is None else self.flow.by_client())
        return History(
            seeds=(driver.seed,),
            rounds=driver.t,
            evaluated=np.array(evaluated),
            metrics={name: _at(values, evaluated)[None] for name, values in self._metrics().items()},
            records={name: np.array([values]) for name, values in self.records.items()},
            clients={name: values[None] for name, values in by_client.items()} | own,
            params={name: np.asarray(array)[None] for name, array in driver.model().items()},
            seconds=self.seconds,
            target=importance / max(importance.sum(), 1e-30),
            pi=pi,
            lam=lam,
        )

    def _metrics(self) -> ByRound:
        """Metrics by the names of reports; the server's own get a prefix where clients report the same."""
        metrics = dict(self.by_clients)
        for name, values in self.central.items():
            usual = usual_name(name)
            metrics[f"central_{name}" if usual in metrics else usual] = values
        # The first round's local work started from the initial model, so its loss is the best estimate there.
        return metrics | ({TRAIN_LOSS: {0: self.losses[min(self.losses)]} | self.losses} if self.losses else {})

    def _evaluated(self, rounds: int) -> list[int]:
        """The rounds after which the model was evaluated; all of them if it never was."""
        metrics = self.by_clients or self.central
        times = {t for values in metrics.values() for t in values} if metrics else range(rounds + 1)
        return sorted({0, *times, rounds})

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The contents as JSON and arrays."""
        plain = {"by_clients": self.by_clients, "central": self.central, "losses": self.losses, "latest": self.latest}
        plain |= {"seconds": self.seconds, "run": self.run_id, "sessions": self.sessions.state()}
        return plain, {name: np.array(values) for name, values in self.records.items()}

    def restore(self, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a former `state`."""
        unknown = np.full(len(arrays["available"]), math.nan)  # for a record that the checkpoint's version did not have
        self.records = {record.name: arrays.get(record.name, unknown).tolist() for record in OF_NODES}
        self.by_clients = {name: _by_round(values) for name, values in plain["by_clients"].items()}
        self.central = {name: _by_round(values) for name, values in plain["central"].items()}
        self.losses, self.latest = _by_round(plain["losses"]), dict(plain["latest"])
        self.seconds, self.run_id = float(plain["seconds"]), str(plain["run"])
        self.sessions.restore(plain.get("sessions", {}))


def _by_round(values: Mapping[str, float]) -> dict[int, float]:
    """JSON has no numbers for keys."""
    return {int(t): float(value) for t, value in values.items()}


def _at(by_round: Mapping[int, float], evaluated: list[int]) -> np.ndarray:
    """The last value at each of these times, NaN before the first."""
    times = sorted(by_round)
    values = np.array([math.nan, *(by_round[t] for t in times)])
    return values[np.searchsorted(times, evaluated, side="right")]


def _worst_decile(values: Mapping[str, float], num_clients: int) -> float:
    """The worst decile of the reported values, in an array for the whole fleet, so that it is compiled once."""
    padded = np.full(num_clients, math.nan, np.float32)
    padded[: len(values)] = list(values.values())
    return float(worst_decile(jnp.asarray(padded)))


ARRIVALS = "arrivals.parquet"
COLUMNS = ("timestamp", "round", "client", "event")


class ParticipationLog:
    """A CSV file of events, which grows by each closed round."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._members: set[str] = set()  # clients that the file names

    def cut(self, t: int) -> None:
        """Drop round t and all later ones, for they are about to run again; if t is 0, begin a new file."""
        kept = []
        if t > 0 and self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                kept = [row for row in csv.reader(file) if _is_before(row, t)]
        self._members = {row[2] for row in kept if row[3] == "member"}
        with durable_file(self.path) as file:
            file.write(_lines([COLUMNS, *kept]).encode())

    def add(self, record: RoundRecord) -> None:
        """Append all events of a round with one write."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        arrived = set(record.arrived)
        members = [name for name in record.members if name not in self._members]
        self._members.update(members)
        events = [("", "round"), *((name, "member") for name in members)]
        events += [(name, "available") for name in record.available]
        events += [(name, "listed") for name in record.unknown]
        events += [(name, "asked") for name in record.uploads]
        events += [(name, "arrived" if name in arrived else "failed") for name in record.uploads]
        events += [(name, "late") for name in record.late]
        with self.path.open("a", newline="", encoding="utf-8") as file:
            file.write(_lines([(now, str(record.t), name, event) for name, event in events]))
            file.flush()
            os.fsync(file.fileno())


def _is_before(row: list[str], t: int) -> bool:
    """Whether a complete row is of an earlier round; the header and a torn last row are not."""
    return len(row) == len(COLUMNS) and row[1].isdigit() and int(row[1]) < t


def _lines(rows: list[tuple[str, ...] | list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


class RunFolder:
    """A folder that `turnout report` and `turnout diagnose` read, at any time.

    It is complete from the first round on, and each of its files is replaced as a whole. Its contents come from the
    chronicle, so a server that was restarted from a checkpoint writes the same as one that never stopped.
    """

    def __init__(self, path: str | Path, notes: Mapping[str, str]) -> None:
        self.path = Path(path)
        self._notes = {"deployed": True, **notes}
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
            store.renew(run, self.path, lambda _run, work: _write_beside(chronicle, work))
        else:
            store.save(run, self.path, lambda _run, work: (_write_beside(chronicle, work), _begin_log(work)))
        self._flush()

    def _flush(self) -> None:
        for record in self._waiting:
            self._log.add(record)
        self._waiting.clear()

    def _run(self, driver: Driver, chronicle: Chronicle, evaluate_every: int) -> Run:
        experiment = deployed.describe_training(
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


def _write_beside(chronicle: Chronicle, folder: Path) -> None:
    """What only real nodes have: when they were online, and every answer."""
    if chronicle.flow is not None:
        pl.DataFrame(chronicle.flow.table()).write_parquet(folder / ARRIVALS)
    if rows := chronicle.sessions.rows():
        (folder / SESSIONS).write_text(_lines([SESSION_COLUMNS, *rows]), encoding="utf-8")


def _begin_log(folder: Path) -> None:
    ParticipationLog(folder / LOG).cut(0)
