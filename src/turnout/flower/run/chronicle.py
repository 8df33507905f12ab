"""The history of a training on real nodes, in the form of a simulation's `History`."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout.flower.run.estimates import estimated_columns
from turnout.flower.server.compiled_round import RoundRecord
from turnout.flower.server.driver import Driver
from turnout.flower.wire.layout import Arrays
from turnout.metrics import BYTES_UPLOADED, RECORDS, TEST_ACCURACY, TRAIN_LOSS, WORST_DECILE, usual_name
from turnout.simulator.history import History
from turnout.tasks.base import worst_decile

ByRound = dict[str, dict[int, float]]  # values by metric and by the number of rounds before


class Chronicle:
    """Records of every round, metrics where they were reported, and the last metrics of every client.

    It grows by a few numbers per round, and is part of a checkpoint: a training that is restarted has one history.
    """

    def __init__(self) -> None:
        self.records: dict[str, list[float]] = {record.name: [] for record in RECORDS}
        self.by_clients: ByRound = {}  # means of the clients' metrics
        self.central: ByRound = {}  # metrics of the server's own evaluation
        self.losses: dict[int, float] = {}  # during local work
        self.latest: dict[str, dict[str, float]] = {}  # the last value by metric and client
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

    def rate(
        self, t: int, means: Mapping[str, float], by_client: Mapping[str, Mapping[str, float]], num_clients: int
    ) -> None:
        """Add the clients' metrics of the model after t rounds: means, and each client's own values by metric."""
        for name, value in means.items():
            self.by_clients.setdefault(usual_name(name), {})[t] = value
        for name, values in by_client.items():
            self.latest.setdefault(usual_name(name), {}).update(values)
            if usual_name(name) == TEST_ACCURACY and values:
                self.by_clients.setdefault(WORST_DECILE, {})[t] = _worst_decile(values, num_clients)

    def is_rated(self, t: int) -> bool:
        """Whether clients have evaluated the model after t rounds."""
        return any(t in values for values in self.by_clients.values())

    def rate_centrally(self, t: int, metrics: Mapping[str, Any]) -> None:
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
        estimates, importance = estimated_columns(driver), np.array(driver.importance)[driver.places]
        pi, lam = estimates.pop("pi", None), estimates.pop("lam", None)
        by_client = driver.sums() | estimates
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
        return plain | {"seconds": self.seconds, "run": self.run_id}, {
            name: np.array(values) for name, values in self.records.items()
        }

    def restore(self, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a former `state`."""
        unknown = np.full(len(arrays["available"]), math.nan)  # for a record that the checkpoint's version did not have
        self.records = {record.name: arrays.get(record.name, unknown).tolist() for record in RECORDS}
        self.by_clients = {name: _by_round(values) for name, values in plain["by_clients"].items()}
        self.central = {name: _by_round(values) for name, values in plain["central"].items()}
        self.losses, self.latest = _by_round(plain["losses"]), dict(plain["latest"])
        self.seconds, self.run_id = float(plain["seconds"]), str(plain["run"])


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
