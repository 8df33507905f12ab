"""Whether a fitted world is like the log: logs are simulated from it and laid beside the real one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from turnout.availability.base import Process
from turnout.diagnosis.findings.all_findings import Findings
from turnout.diagnosis.findings.clusters import Clusters, clusters
from turnout.diagnosis.findings.cycles import DAY, Cycles, describe
from turnout.diagnosis.findings.memory import mixing
from turnout.diagnosis.findings.rates import rates
from turnout.diagnosis.findings.run_sums import sample, select, window
from turnout.diagnosis.reading.log import Log
from turnout.diagnosis.world.fit import Fitted
from turnout.streams import Stream, round_key
from turnout.types import RandomKey

SEEDS = 5
MOST_CELLS, MOST_CLIENTS = 8_000_000, 2000  # of a simulated log
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SPREADS = 3.0  # how many times farther than simulated logs are from each other the real one may be
Values = Float[np.ndarray, " points"]


@dataclass(frozen=True)
class Comparison:
    """One aspect of the log beside that of simulated logs."""

    name: str
    points: tuple[str, ...]  # what each value is
    real: Values
    simulated: Values  # mean over the simulated logs
    low: Values  # least and largest of them
    high: Values
    distance: float  # largest |real - simulated|
    tolerance: float  # what simulated logs and a small allowance account for

    @property
    def worst(self) -> str:
        """The point at which the two differ most."""
        return self.points[int(np.argmax(np.abs(self.real - self.simulated)))]

    @property
    def alike(self) -> bool:
        """Whether the real log is about as far from simulated ones as these are from each other."""
        return self.distance <= self.tolerance


@dataclass(frozen=True)
class Likeness:
    """The comparisons, and which of them fail."""

    comparisons: tuple[Comparison, ...]
    seeds: int
    num_clients: int  # clients compared; fewer than the fleet has where that is large

    @property
    def alike(self) -> bool:
        return all(comparison.alike for comparison in self.comparisons)

    @property
    def differences(self) -> list[str]:
        """Names of the aspects in which the fitted world is not like the log."""
        return [comparison.name for comparison in self.comparisons if not comparison.alike]


# Differences that nobody would mind: of a share, of a correlation.
ALLOWANCE = {
    "availability": 0.02,
    "autocorrelation": 0.05,
    "fleet autocorrelation": 0.1,
    "course of the cycle": 0.02,
    "clusters": 0.1,
}


def likeness(log: Log, findings: Findings, fitted: Fitted, seeds: int = SEEDS) -> Likeness:
    """Simulate logs of the same length and the same watched windows, and compare what they show."""
    real = window(log, fitted.first_slot, log.num_slots) if fitted.first_slot else log
    chosen = np.arange(log.num_clients)
    if fitted.kind != "minimum_separation":  # a part of a fleet that shares rests is another fleet
        chosen = sample(real, MOST_CELLS, MOST_CLIENTS)
    elif log.num_clients * real.num_slots > MOST_CELLS:
        real = window(real, 0, max(10, MOST_CELLS // log.num_clients))
    process = part(fitted, chosen).process()
    real = select(real, chosen) if len(chosen) < log.num_clients else real
    period = findings.cycles.found[0].period if findings.cycles.found else _day(log)
    logs = [real, *(simulated(real, process, seed) for seed in range(seeds))]
    looks = [_look(each, findings.cycles, period) for each in logs]
    compared = tuple(_compare(name, [look[name] for look in looks]) for name in looks[0])
    return Likeness(compared, seeds, len(chosen))


def _day(log: Log) -> float | None:
    """Slots of a day, if the log has a clock and lasts for one."""
    if log.slot_seconds is None or DAY / log.slot_seconds > log.num_slots or log.slot_seconds * 4 > DAY:
        return None
    return DAY / log.slot_seconds


def simulated(log: Log, process: Process, seed: int) -> Log:
    """A log of the process, as long as this one and watched as it was."""
    present = play(process, log.num_slots, seed)
    watched = None if log.watched is None else log.watched_matrix()
    made = Log.from_matrix(present, watched=watched)
    return replace(made, names=log.names, slot_seconds=log.slot_seconds, clock_start=log.clock_start)


def play(process: Process, rounds: int, seed: int) -> Bool[np.ndarray, "clients rounds"]:
    """Who is available in each round, as a run with this seed would meet it."""
    return np.asarray(_play(process, jr.key(seed), jnp.arange(rounds))).T


@eqx.filter_jit
def _play(process: Process, root: RandomKey, rounds: Int[Array, " rounds"]) -> Bool[Array, "rounds clients"]:
    start = process.init(round_key(root, Stream.WORLD_START, 0))
    return jax.lax.scan(lambda s, t: process.step(s, t, round_key(root, Stream.AVAILABILITY, t)), start, rounds)[1]


def part(fitted: Fitted, chosen: Int[np.ndarray, " selected"]) -> Fitted:
    """The world of some of its clients; not for a minimum separation, where all depend on all."""
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


def _look(log: Log, rhythm: Cycles, period: float | None) -> dict[str, dict[str, float]]:
    """Every aspect of a log, by name and point."""
    of_clients = rates(log)
    forgets = mixing(log, of_clients)
    there = of_clients.pi[np.isfinite(of_clients.pi)]
    lags = forgets.lags[1:] if len(forgets.lags) > 1 else forgets.lags
    found = {
        "availability": {f"{q:.0%} quantile": float(np.quantile(there, q)) for q in QUANTILES},
        "autocorrelation": _curve(lags, forgets.curve[-len(lags) :]),
        "fleet autocorrelation": _curve(lags, forgets.fleet_curve[-len(lags) :]),
        "clusters": _company(clusters(log, of_clients, rhythm)),
    }
    if period is not None:
        profile = describe(log, of_clients, "cycle", period, 1.0).profile
        found["course of the cycle"] = {f"part {b + 1} of {len(profile)}": float(v) for b, v in enumerate(profile)}
    return found


def _curve(lags: Int[np.ndarray, " lags"], values: Values) -> dict[str, float]:
    return {f"lag {lag}": float(value) for lag, value in zip(lags, np.nan_to_num(values), strict=True)}


def _company(found: Clusters) -> dict[str, float]:
    """Shares of the fleet, and a correlation: all on the scale of 0 to 1."""
    count = len(found.label)
    sizes = found.sizes / count if found.count else np.zeros(1)
    strength = float(np.average(found.strength, weights=found.sizes)) if found.count else 0.0
    return {
        "share of the fleet in clusters": found.share,
        "largest cluster, as share of the fleet": float(sizes.max()),
        "mean correlation within clusters": strength,
    }


def _compare(name: str, looks: list[dict[str, float]]) -> Comparison:
    """The first look beside the others."""
    table = np.array([list(look.values()) for look in looks])
    real, others = table[0], table[1:]
    mean = others.mean(axis=0)

    def far(values: Values, centre: Values) -> float:
        return float(np.abs(values - centre).max())

    # Each simulated log against the mean of the other ones, as the real one is against the mean of all.
    among = [far(others[s], np.delete(others, s, axis=0).mean(axis=0)) for s in range(len(others)) if len(others) > 1]
    return Comparison(
        name=name,
        points=tuple(looks[0]),
        real=real,
        simulated=mean,
        low=others.min(axis=0),
        high=others.max(axis=0),
        distance=far(real, mean),
        tolerance=ALLOWANCE[name] + SPREADS * float(np.mean(among or [0.0])),
    )
