"""Whether a fitted world is like the log: logs simulated from it are compared with the real one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from turnout.availability.base import Process
from turnout.availability.recorded.time_slots import DAY
from turnout.streams import Stream, round_key
from turnout.types import RandomKey
from turnout.workbench.diagnosis.findings.all_findings import Findings
from turnout.workbench.diagnosis.findings.clusters import Clusters, clusters
from turnout.workbench.diagnosis.findings.cycles import Cycles, describe
from turnout.workbench.diagnosis.findings.memory import mixing
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.findings.run_sums import sample, select, window
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.fit import Fitted

SEEDS = 5
MAX_CELLS, MAX_CLIENTS = 8_000_000, 2000  # of a simulated log
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_SPREADS = 3.0  # distance of the real log, in mean distances of simulated logs from each other
Values = Float[np.ndarray, " points"]


@dataclass(frozen=True)
class Comparison:
    """One aspect of the log, compared with simulated logs."""

    name: str
    points: tuple[str, ...]  # what each value is
    real: Values
    simulated: Values  # mean over the simulated logs
    low: Values  # least and largest of them
    high: Values
    distance: float  # largest |real - simulated|
    tolerance: float  # distance that simulated logs and a small allowance explain
    lags: Values | None = None  # of the points, in slots, where these are lags

    @property
    def alike(self) -> bool:
        """Whether the real log is about as far from the simulated ones as they are from each other."""
        return self.distance <= self.tolerance


@dataclass(frozen=True)
class Likeness:
    """The comparisons, and which of them fail."""

    comparisons: tuple[Comparison, ...]
    seeds: int
    num_clients: int  # clients compared; a sample of a large fleet

    @property
    def alike(self) -> bool:
        return all(comparison.alike for comparison in self.comparisons)

    @property
    def differences(self) -> list[str]:
        """Names of the aspects in which the fitted world is not like the log."""
        return [comparison.name for comparison in self.comparisons if not comparison.alike]


@dataclass(frozen=True)
class _Aspect:
    """One aspect of one log."""

    values: dict[str, float]  # by point
    lags: Values | None = None  # of the points, where these are lags


# Differences of a share or a correlation that do not matter.
ALLOWANCE = {
    "availability": 0.02,
    "autocorrelation": 0.05,
    "fleet autocorrelation": 0.1,
    "course of the cycle": 0.02,
    "clusters": 0.1,
}


def likeness(log: Log, findings: Findings, fitted: Fitted, seeds: int = SEEDS) -> Likeness:
    """Simulate logs of the same length and the same watched windows, and compare them with the real one."""
    real = window(log, fitted.first_slot, log.num_slots) if fitted.first_slot else log
    chosen = np.arange(log.num_clients)
    if fitted.kind != "minimum_separation":  # a sample of a fleet that takes turns is another fleet
        chosen = sample(real, MAX_CELLS, MAX_CLIENTS)
    elif log.num_clients * real.num_slots > MAX_CELLS:
        real = window(real, 0, max(10, MAX_CELLS // log.num_clients))
    process = part(fitted, chosen).process()
    real = select(real, chosen) if len(chosen) < log.num_clients else real
    period = findings.cycles.found[0].period if findings.cycles.found else _day(log)
    logs = [real, *(simulate_log(real, process, seed) for seed in range(seeds))]
    aspects = [_aspects(each, findings.cycles, period) for each in logs]
    compared = tuple(_compare(name, [of_log[name] for of_log in aspects]) for name in aspects[0])
    return Likeness(compared, seeds, len(chosen))


def _day(log: Log) -> float | None:
    """Slots per day, if the log has a clock and lasts at least a day."""
    if log.slot_seconds is None or DAY / log.slot_seconds > log.num_slots or log.slot_seconds * 4 > DAY:
        return None
    return DAY / log.slot_seconds


def simulate_log(log: Log, process: Process, seed: int) -> Log:
    """A simulated log of the process, with the length and the watched windows of this one."""
    present = play(process, log.num_slots, seed)
    watched = None if log.watched is None else log.watched_matrix()
    simulated_log = Log.from_matrix(present, watched=watched)
    return replace(simulated_log, names=log.names, slot_seconds=log.slot_seconds, clock_start=log.clock_start)


def play(process: Process, rounds: int, seed: int) -> Bool[np.ndarray, "clients rounds"]:
    """Who is available in each round, as in a run with this seed."""
    return np.asarray(_play(process, jr.key(seed), jnp.arange(rounds))).T


@eqx.filter_jit
def _play(process: Process, root: RandomKey, rounds: Int[Array, " rounds"]) -> Bool[Array, "rounds clients"]:
    start = process.init(round_key(root, Stream.WORLD_START, 0))
    return jax.lax.scan(lambda s, t: process.step(s, t, round_key(root, Stream.AVAILABILITY, t)), start, rounds)[1]


def part(fitted: Fitted, chosen: Int[np.ndarray, " selected"]) -> Fitted:
    """The world restricted to these clients; not for a minimum separation, where all depend on all."""
    if len(chosen) == fitted.num_clients:
        return fitted
    parameters = dict(fitted.parameters)
    if fitted.kind == "clustered":
        kept, cluster = np.unique(np.asarray(parameters["clusters"])[chosen], return_inverse=True)
        parameters = {name: [parameters[name][int(c)] for c in kept] for name in ("pi", "lam")}
        parameters["clusters"] = cluster.ravel().tolist()
    else:
        for name in ("pi", "lam", "mean", "amplitude", "zones"):
            if name in parameters:
                parameters[name] = [parameters[name][int(k)] for k in chosen]
    return replace(fitted, num_clients=len(chosen), parameters=parameters)


def _aspects(log: Log, fleet_cycles: Cycles, period: float | None) -> dict[str, _Aspect]:
    """Every aspect of a log, by name."""
    fleet_rates = rates(log)
    memory = mixing(log, fleet_rates)
    pi = fleet_rates.pi[np.isfinite(fleet_rates.pi)]
    later = slice(1 if len(memory.lags) > 1 else 0, None)  # at lag 0 all logs are alike
    aspects = {
        "availability": _Aspect({f"{q:.0%} quantile": float(np.quantile(pi, q)) for q in QUANTILES}),
        "autocorrelation": _by_lag(memory.lags[later], memory.curve[later]),
        "fleet autocorrelation": _by_lag(memory.lags[later], memory.fleet_curve[later]),
        "clusters": _Aspect(_cluster_values(clusters(log, fleet_rates, fleet_cycles))),
    }
    if period is not None:
        profile = describe(log, fleet_rates, "cycle", period, 1.0).profile
        parts = {f"part {b + 1} of {len(profile)}": float(v) for b, v in enumerate(profile)}
        aspects["course of the cycle"] = _Aspect(parts)
    return aspects


def _by_lag(lags: Int[np.ndarray, " points"], values: Values) -> _Aspect:
    points = {f"lag {lag}": float(value) for lag, value in zip(lags, np.nan_to_num(values), strict=True)}
    return _Aspect(points, lags.astype(np.float64))


def _cluster_values(groups: Clusters) -> dict[str, float]:
    """Shares of the fleet and a correlation, all between 0 and 1."""
    count = len(groups.label)
    sizes = groups.sizes / count if groups.count else np.zeros(1)
    strength = float(np.average(groups.strength, weights=groups.sizes)) if groups.count else 0.0
    return {
        "share of the fleet in clusters": groups.share,
        "largest cluster, as share of the fleet": float(sizes.max()),
        "mean correlation within clusters": strength,
    }


def _compare(name: str, logs: list[_Aspect]) -> Comparison:
    """Compare the first log with the others."""
    table = np.array([list(aspect.values.values()) for aspect in logs])
    real, others = table[0], table[1:]
    mean = others.mean(axis=0)

    def far(values: Values, centre: Values) -> float:
        return float(np.abs(values - centre).max())

    # Each simulated log is compared with the mean of the others, as the real one is with the mean of all.
    among = [far(others[s], np.delete(others, s, axis=0).mean(axis=0)) for s in range(len(others)) if len(others) > 1]
    return Comparison(
        name=name,
        points=tuple(logs[0].values),
        real=real,
        simulated=mean,
        low=others.min(axis=0),
        high=others.max(axis=0),
        distance=far(real, mean),
        tolerance=ALLOWANCE[name] + MAX_SPREADS * float(np.mean(among or [0.0])),
        lags=logs[0].lags,
    )
