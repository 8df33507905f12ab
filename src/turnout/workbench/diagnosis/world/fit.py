"""A world fitted to a log: a process of `turnout.availability` with its parameters, ready for an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from turnout import availability
from turnout.availability.base import Process
from turnout.availability.markov import lowest_correlation
from turnout.statistics import evenly
from turnout.workbench.diagnosis.findings.all_findings import Findings
from turnout.workbench.diagnosis.findings.clusters import Clusters, clusters
from turnout.workbench.diagnosis.findings.cycles import Cycle, harmonics
from turnout.workbench.diagnosis.findings.memory import Mixing, PerLag, mixing
from turnout.workbench.diagnosis.findings.rates import Rates, rates
from turnout.workbench.diagnosis.findings.rests import Gaps, odds
from turnout.workbench.diagnosis.findings.run_sums import PerClient, over_runs, per_slot, watched_runs, window
from turnout.workbench.diagnosis.reading.log import Log

MAX_CORRELATION = 0.9999  # of a fitted chain; beyond it a client hardly ever changes
HOURS = 24
DAY_HARMONICS = 4  # in the course of a day
MAX_ZONE_P_VALUE = 0.05  # of no cycle, for a client to get its own time zone
MIN_CORRELATION = 0.1  # below it, the rest of a curve is noise
MAX_SLOW_POWER = 0.9  # of λ, for clients to count as slower than their chains
SLOW_NOTE = (
    "clients forget more slowly than from one slot to the next: λ was raised to the power {:.2f} "
    "to have their autocorrelation over all lags"
)
ALIKE_NOTE = "clients differ in how often they come as chance explains, so all have the same rate"


@dataclass(frozen=True)
class Fitted:
    """A process by its name and its arguments: plain numbers and lists, as an experiment takes them."""

    kind: str  # a name in turnout.availability
    num_clients: int
    parameters: Mapping[str, Any]
    first_slot: int = 0  # of the stretch of the log to which it was fitted
    notes: tuple[str, ...] = ()  # features of the log that it lacks

    def process(self) -> Process:
        """The process itself."""
        return getattr(availability, self.kind)(self.num_clients, **self.parameters)


def fit(log: Log, findings: Findings) -> Fitted:
    """Fit a world of the recognised kind, to the last stationary stretch if the fleet drifts.

    Rates that no chain can have are moved to the nearest possible ones. A client that never came is expected about once
    in twice the time that it was watched. A client that never left never leaves.
    """
    features = findings.recognised.features
    first = findings.drift.stationary_from if "drifting" in features else 0
    notes = _missing(findings, first, log.num_slots)
    fleet_rates, clustering, memory, part = findings.rates, findings.clusters, findings.mixing, log
    if first > 0:
        part = window(log, first, log.num_slots)
        fleet_rates = rates(part)
        clustering, memory = clusters(part, fleet_rates, findings.cycles), mixing(part, fleet_rates)
    kind, slowness = _kind(findings), 1.0
    alike = findings.weights.is_chance and kind in ("bernoulli", "markov")
    if alike:
        notes = (*notes, ALIKE_NOTE)
    if kind == "minimum_separation":
        parameters = _fit_separated(part, fleet_rates, clustering, findings.gaps)
    elif kind == "bernoulli":
        parameters = {"pi": _plain(feasible(fleet_rates, alike)[0])}
    elif kind == "diurnal":
        parameters, slowness = _fit_diurnal(part, fleet_rates, findings.cycles.found[0], memory)
    else:
        pi, lam = feasible(fleet_rates, alike)
        slowness = _slowness(memory, lam)
        lam = _slow_down(lam, slowness)
        parameters = {"pi": _plain(pi), "lam": _plain(lam)}
        if kind == "clustered":
            parameters = _fit_clustered(pi, lam, clustering)
    if slowness < 1:
        notes = (*notes, SLOW_NOTE.format(slowness))
    return Fitted(kind, log.num_clients, parameters, first, notes)


def _slowness(
    memory: Mixing, lam: PerClient, cycle_share: PerClient | None = None, course: PerLag | None = None
) -> float:
    """The power of λ at which chains forget as fast as the log does, at all lags rather than at lag one.

    Clients that come for a session and flicker within it lose much of their correlation at once and the rest slowly,
    which no chain does. `cycle_share` is the share of each client's variance that comes from a cycle and `course` the
    autocorrelation of that cycle. Powers near 1, and above, are set to 1: the log then forgets like its chains.
    """
    fades = np.flatnonzero(~(memory.curve >= MIN_CORRELATION))
    lags = slice(1, fades[0] if len(fades) else len(memory.lags))
    s = memory.lags[lags]
    if len(s) < 2:
        return 1.0
    chosen = evenly(len(lam), 1000)
    chosen_lam, base = np.clip(lam[chosen], 0, 1), np.zeros((len(chosen), len(s)))
    rest = np.ones(len(chosen))
    if cycle_share is not None and course is not None:
        base, rest = cycle_share[chosen, None] * course[lags], 1 - cycle_share[chosen]
    powers = np.linspace(0.3, 1.0, 71)
    errors = [
        ((np.median(base + rest[:, None] * chosen_lam[:, None] ** (g * s), axis=0) - memory.curve[lags]) ** 2).sum()
        for g in powers
    ]
    best = float(powers[int(np.argmin(errors))])
    return best if best < MAX_SLOW_POWER else 1.0


def _slow_down(lam: PerClient, slowness: float) -> PerClient:
    """λ to a power where it is positive, with six digits, rounded down."""
    return np.where(lam > 0, np.trunc(np.minimum(np.maximum(lam, 0) ** slowness, MAX_CORRELATION) * 1e6) / 1e6, lam)


def _kind(findings: Findings) -> str:
    """The process with most of the recognised features; of day and clusters, the one that moves clients more."""
    features = findings.recognised.features
    if "minimum_separation" in features:
        return "minimum_separation"
    if "diurnal" in features and "clustered" in features:
        clustering = findings.clusters
        cluster_share = float((clustering.strength * clustering.sizes).sum()) / len(clustering.label)
        return "clustered" if cluster_share > findings.cycles.found[0].client_share else "diurnal"
    for name in ("diurnal", "clustered"):
        if name in features:
            return name
    return "markov" if findings.rates.persistent.any() or findings.recognised.kind == "markov" else "bernoulli"


def _missing(findings: Findings, first: int, num_slots: int) -> tuple[str, ...]:
    """Notes on the features of the log that the fitted world leaves out."""
    kind, features, notes = _kind(findings), findings.recognised.features, []
    if first > 0:
        notes.append(f"the fleet drifts: fitted to slots {first} to {num_slots - 1}, which look stationary")
    elif "drifting" in features:
        notes.append("the fleet drifts, and no later stretch looks more stationary: fitted to the whole log")
    if "diurnal" in features and kind != "diurnal":
        notes.append("the daily cycle is left out, as clusters move the clients more")
    if "clustered" in features and kind == "diurnal":
        notes.append("clusters are left out, as the day moves the clients more")
    if kind == "clustered" and findings.clusters.count and float(findings.clusters.strength.min()) < 0.9:
        notes.append("clients of a cluster are always together in the fitted world, but only mostly in the log")
    if "weekly" in [cycle.name for cycle in findings.cycles.found[1:]]:
        notes.append("the weekly cycle is left out: all days are the same in the fitted world")
    return tuple(notes)


def _plain(values: Float[np.ndarray, " values"] | Int[np.ndarray, " values"]) -> list[Any]:
    """A list of Python numbers with six digits."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def feasible(rates: Rates, alike: bool = False) -> tuple[PerClient, PerClient]:
    """(π, λ) of each client, within the range that a chain can have, with six digits; `alike`: with the fleet's π."""
    watched = rates.watched > 0
    pi = np.where(watched, rates.on / np.maximum(rates.watched, 1), np.clip(rates.mean, 1e-6, 1 - 1e-6))
    never = watched & (rates.on == 0)
    pi = np.where(never, 0.5 / (rates.watched + 1), pi)
    if alike:
        pi, never = np.full(len(pi), rates.mean), np.zeros_like(never)
    pi = np.array(_plain(pi))
    lam = np.where(never | (pi == 1) | ~watched, 0.0, rates.lam)
    # Toward zero, so that rounding cannot leave the range.
    lam = np.trunc(np.clip(lam, lowest_correlation(pi), MAX_CORRELATION) * 1e6) / 1e6
    return pi, np.where(pi == 1, 0.0, lam)


def _fit_clustered(pi: PerClient, lam: PerClient, clustering: Clusters) -> dict[str, Any]:
    """One chain per cluster, with the mean rates of its clients; a client outside of clusters is a cluster of one."""
    unit = clustering.unit
    number = np.bincount(unit)
    pi, lam = (np.bincount(unit, values) / number for values in (pi, lam))
    pi = np.array(_plain(pi))
    lam = np.where(pi == 1, 0.0, np.trunc(np.clip(lam, lowest_correlation(pi), MAX_CORRELATION) * 1e6) / 1e6)
    return {"clusters": unit.tolist(), "pi": _plain(pi), "lam": _plain(lam)}


def _fit_separated(log: Log, rates: Rates, clustering: Clusters, gaps: Gaps) -> dict[str, Any]:
    """B, R and the odds that give the participation rates; whole clusters are drawn if their clients are identical."""
    together = clustering.count > 0 and clustering.identical == int((clustering.label >= 0).sum())
    unit = clustering.unit if together else np.arange(log.num_clients)
    _, leader = np.unique(unit, return_index=True)
    drawn = rates.on[leader].astype(np.float64)
    chosen = np.zeros(log.num_clients)
    chosen[leader] = 1.0
    batch = max(1, round(float(per_slot(log.present, log.num_slots, chosen).mean())))
    separation = min(gaps.separation, len(leader) // batch - 1)
    share = (drawn + 0.5) / (rates.watched[leader] + 1)
    parameters = {"weights": _plain(odds(share, batch, separation)), "batch": batch, "separation": separation}
    return parameters | ({"groups": unit.tolist()} if together else {})


def _fit_diurnal(log: Log, rates: Rates, cycle: Cycle, memory: Mixing) -> tuple[dict[str, Any], float]:
    """One course of the day for all; a mean, an amplitude, a time zone and a persistence per client.

    A client with a clear day of its own gets its own zone, by the phase of its first harmonic; the others get that of
    the fleet. The course is the mean of all profiles, aligned by zone. Let v = A² mean(f²) be the variance that the day
    gives a client and r the autocorrelation of the course at lag one. λ is the remaining correlation of neighbouring
    slots, (λ̂ π(1-π) - v r) / (π(1-π) - v). Also returns the slowness of the clients.
    """
    period = max(2, round(cycle.period))
    ahead = _zones(log, cycle)
    profile = _profiles(log, cycle.period, ahead)
    shape = _course(profile, rates)
    pi, lam = feasible(rates)
    amplitude = np.clip(_amplitudes(profile, shape, cycle), 0, None)
    largest = np.minimum((1 - pi) / shape.max(), pi / -shape.min())
    amplitude = np.array(_plain(np.maximum(np.minimum(amplitude, largest) * (1 - 1e-5), 0)))
    v = amplitude**2 * float((shape**2).mean())
    fine = np.interp((np.arange(period) + 0.5) / period * HOURS, np.arange(HOURS) + 0.5, shape, period=HOURS)
    course = np.array([(fine * np.roll(fine, -int(s))).mean() for s in (1, *memory.lags)]) / (fine**2).mean()
    variance = pi * (1 - pi)
    persistence = (np.maximum(lam, 0) * variance - v * course[0]) / np.maximum(variance - v, 1e-9)
    persistence = np.clip(persistence, 0, MAX_CORRELATION)
    slowness = _slowness(memory, persistence, np.minimum(v / np.maximum(variance, 1e-9), 1), course[1:])
    start = log.slots_since_midnight / cycle.period * HOURS
    parameters = {
        "rounds_per_day": period,
        "mean": _plain(pi),
        "amplitude": _plain(amplitude),
        "shape": _plain(shape),
        "zones": _plain(np.mod(ahead + start, HOURS)),
        "lam": _plain(_slow_down(persistence, slowness)),
    }
    return parameters, slowness


def _has_own_day(cycle: Cycle) -> Bool[np.ndarray, " clients"]:
    """Clients whose phase is clear enough to use; a wrong one costs less than the fleet's phase for all."""
    return (cycle.client_p_value < MAX_ZONE_P_VALUE) & np.isfinite(cycle.client_peak)


def _zones(log: Log, cycle: Cycle) -> PerClient:
    """Hours (24ths of the cycle) by which each client is ahead of the fleet."""
    unit = cycle.period * log.slot_hours
    clear = _has_own_day(cycle)
    if not clear.any():
        return np.zeros(log.num_clients)
    turn = np.exp(2j * np.pi * np.where(clear, cycle.client_peak, 0.0) / unit)
    weight = np.where(clear, cycle.client_amplitude, 0.0)
    middle = np.angle((turn * weight).sum())
    late = np.angle(turn * np.exp(-1j * middle)) / (2 * np.pi) * HOURS
    return np.where(clear, -np.round(late, 1), 0.0)


def _profiles(log: Log, period: float, ahead: PerClient) -> Float[np.ndarray, "clients hours"]:
    """Excess presence of each client at each local hour."""
    count = log.num_clients
    hour = np.mod((np.arange(log.num_slots) + 0.5 + log.slots_since_midnight) / period, 1.0) * HOURS
    present, watched = np.empty((count, HOURS)), np.empty((count, HOURS))
    for h in range(HOURS):
        inside = (hour.astype(np.int64) == h).astype(np.float64)
        present[:, h] = over_runs(log.present, inside, count)
        watched[:, h] = over_runs(watched_runs(log), inside, count)
    mean = present.sum(axis=1, keepdims=True) / np.maximum(watched.sum(axis=1, keepdims=True), 1)
    excess = np.where(watched > 0, present / np.maximum(watched, 1) - mean, 0.0)
    # Local hour h is the log's hour h - ahead.
    local = np.mod(np.arange(HOURS)[None, :] - np.round(ahead)[:, None].astype(np.int64), HOURS)
    return np.take_along_axis(excess, local, axis=1)


def _course(profile: Float[np.ndarray, "clients hours"], rates: Rates) -> Float[np.ndarray, " hours"]:
    """Mean profile, smoothed by its first harmonics, with mean 0 and height 1."""
    mean = (profile * rates.watched[:, None]).sum(axis=0)
    basis = harmonics((np.arange(HOURS) + 0.5) / HOURS, DAY_HARMONICS)
    smooth = basis @ (basis.T @ mean) / (HOURS / 2)
    smooth = smooth - smooth.mean()
    if smooth.max() <= 0:
        smooth = np.cos(2 * np.pi * np.arange(HOURS) / HOURS)
    return np.array(_plain(smooth / smooth.max()))


def _amplitudes(
    profile: Float[np.ndarray, "clients hours"], shape: Float[np.ndarray, " hours"], cycle: Cycle
) -> PerClient:
    """Amplitude of each client along the common course, by its first harmonic with the noise removed."""
    projected = profile @ shape / (shape @ shape)
    harmonic = 2 * np.abs(np.mean(shape * np.exp(-2j * np.pi * np.arange(HOURS) / HOURS)))
    amplitude = cycle.client_amplitude / harmonic
    return np.where(_has_own_day(cycle), amplitude, np.minimum(projected, amplitude))
