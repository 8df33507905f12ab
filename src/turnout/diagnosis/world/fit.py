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
from turnout.diagnosis.findings.all_findings import Findings
from turnout.diagnosis.findings.clusters import Clusters, clusters
from turnout.diagnosis.findings.cycles import Cycle, harmonics
from turnout.diagnosis.findings.memory import Mixing, mixing
from turnout.diagnosis.findings.rates import Rates, rates
from turnout.diagnosis.findings.rests import Gaps, odds
from turnout.diagnosis.findings.run_sums import PerClient, over_runs, per_slot, watched_runs, window
from turnout.diagnosis.reading.log import Log
from turnout.statistics import evenly

HIGHEST = 0.9999  # λ beyond which a log says no more than that a client hardly ever changes
HOURS = 24
SMOOTH = 4  # harmonics of the course of a day
OWN_DAY = 0.05  # p-value of no cycle up to which a client is given its own time zone
LOST = 0.1  # correlation below which the rest of a curve is noise
SLOWER = 0.9  # power of λ from which on clients are called slower than their chains
SLOW = (
    "clients forget more slowly than from one slot to the next: λ was raised to the power {:.2f} "
    "to have their autocorrelation over all lags"
)


@dataclass(frozen=True)
class Fitted:
    """A process by its name and its arguments, which are plain numbers and lists as an experiment takes them."""

    kind: str  # a name in turnout.availability
    num_clients: int
    parameters: Mapping[str, Any]
    first_slot: int = 0  # where the stretch of the log begins that it was fitted to
    notes: tuple[str, ...] = ()  # what of the log it does not have

    def process(self) -> Process:
        """The process itself."""
        return getattr(availability, self.kind)(self.num_clients, **self.parameters)


def fit(log: Log, findings: Findings) -> Fitted:
    """Fit a world of the kind that was recognised, to the last stationary stretch if the fleet drifts.

    Rates that no chain has are moved to the nearest that one has; who was never seen comes about once in twice the
    time that it was watched, and who never left stays for ever.
    """
    features = findings.recognised.features
    first = findings.drift.stationary_from if "drifting" in features else 0
    notes = _missing(findings, first, log.num_slots)
    of_clients, company, forgets, part = findings.rates, findings.clusters, findings.mixing, log
    if first > 0:
        part = window(log, first, log.num_slots)
        of_clients = rates(part)
        company, forgets = clusters(part, of_clients, findings.cycles), mixing(part, of_clients)
    kind, slowness = _kind(findings), 1.0
    if kind == "minimum_separation":
        parameters = _separated(part, of_clients, company, findings.gaps)
    elif kind == "bernoulli":
        parameters = {"pi": _plain(feasible(of_clients)[0])}
    elif kind == "diurnal":
        parameters, slowness = _diurnal(part, of_clients, findings.cycles.found[0], forgets)
    else:
        pi, lam = feasible(of_clients)
        slowness = _slowness(forgets, lam)
        lam = _slowed(lam, slowness)
        parameters = _clustered(pi, lam, company) if kind == "clustered" else {"pi": _plain(pi), "lam": _plain(lam)}
    if slowness < 1:
        notes = (*notes, SLOW.format(slowness))
    return Fitted(kind, log.num_clients, parameters, first, notes)


def _slowness(
    forgets: Mixing,
    lam: PerClient,
    moved: PerClient | None = None,
    course: Float[np.ndarray, " lags"] | None = None,
) -> float:
    """The power of λ at which chains forget as the log does, at all lags rather than from one slot to the next.

    Clients that come for a session and flicker within it lose much of their correlation at once and the rest slowly,
    which no chain does. `moved` is the share of each client's variance that a cycle makes and `course` the cycle's own
    autocorrelation. Powers near 1, and above, are taken as 1: the log then forgets as its chains do.
    """
    fades = np.flatnonzero(~(forgets.curve >= LOST))
    lags = slice(1, fades[0] if len(fades) else len(forgets.lags))
    s = forgets.lags[lags]
    if len(s) < 2:
        return 1.0
    some = evenly(len(lam), 1000)
    own, base = np.clip(lam[some], 0, 1), np.zeros((len(some), len(s)))
    left = np.ones(len(some))
    if moved is not None and course is not None:
        base, left = moved[some, None] * course[lags], 1 - moved[some]
    tried = np.linspace(0.3, 1.0, 71)
    miss = [
        ((np.median(base + left[:, None] * own[:, None] ** (g * s), axis=0) - forgets.curve[lags]) ** 2).sum()
        for g in tried
    ]
    best = float(tried[int(np.argmin(miss))])
    return best if best < SLOWER else 1.0


def _slowed(lam: PerClient, slowness: float) -> PerClient:
    """λ to a power where it is positive; six digits, rounded down."""
    return np.where(lam > 0, np.trunc(np.minimum(np.maximum(lam, 0) ** slowness, HIGHEST) * 1e6) / 1e6, lam)


def _kind(findings: Findings) -> str:
    """The process that has most of what was recognised; between the day and company, what moves the clients more."""
    features = findings.recognised.features
    if "minimum_separation" in features:
        return "minimum_separation"
    if "diurnal" in features and "clustered" in features:
        company = findings.clusters
        moved = float((company.strength * company.sizes).sum()) / len(company.label)
        return "clustered" if moved > findings.cycles.found[0].client_share else "diurnal"
    for name in ("diurnal", "clustered"):
        if name in features:
            return name
    return "markov" if findings.rates.persistent.any() or findings.recognised.kind == "markov" else "bernoulli"


def _missing(findings: Findings, first: int, num_slots: int) -> tuple[str, ...]:
    """What of the log the fitted world leaves out."""
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
        notes.append("clients of a cluster are always together in the fitted world, in the log only mostly")
    if "weekly" in [cycle.name for cycle in findings.cycles.found[1:]]:
        notes.append("the weekly cycle is left out: days are alike in the fitted world")
    return tuple(notes)


def _plain(values: Float[np.ndarray, " values"] | Int[np.ndarray, " values"]) -> list[Any]:
    """As a list of Python numbers, with six digits."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def feasible(rates: Rates) -> tuple[PerClient, PerClient]:
    """(π, λ) of each client within the range that a chain can have; six digits."""
    known = rates.watched > 0
    mean = float(rates.on.sum() / max(int(rates.watched.sum()), 1))
    pi = np.where(known, rates.on / np.maximum(rates.watched, 1), np.clip(mean, 1e-6, 1 - 1e-6))
    never = known & (rates.on == 0)
    pi = np.where(never, 0.5 / (rates.watched + 1), pi)
    pi = np.array(_plain(pi))
    lam = np.where(never | (pi == 1) | ~known, 0.0, rates.lam)
    # Toward zero, so that rounding cannot leave the range.
    lam = np.trunc(np.clip(lam, lowest_correlation(pi), HIGHEST) * 1e6) / 1e6
    return pi, np.where(pi == 1, 0.0, lam)


def _clustered(pi: PerClient, lam: PerClient, company: Clusters) -> dict[str, Any]:
    """One chain a cluster, with the mean rates of its clients; who moves alone is a cluster of one."""
    unit = company.unit
    number = np.bincount(unit)
    pi, lam = (np.bincount(unit, values) / number for values in (pi, lam))
    pi = np.array(_plain(pi))
    lam = np.where(pi == 1, 0.0, np.trunc(np.clip(lam, lowest_correlation(pi), HIGHEST) * 1e6) / 1e6)
    return {"clusters": unit.tolist(), "pi": _plain(pi), "lam": _plain(lam)}


def _separated(log: Log, rates: Rates, company: Clusters, gaps: Gaps) -> dict[str, Any]:
    """B, R and the odds that give the rates of participation; whole clusters are drawn if all of their clients are."""
    together = company.count > 0 and company.identical == int((company.label >= 0).sum())
    unit = company.unit if together else np.arange(log.num_clients)
    _, leader = np.unique(unit, return_index=True)
    drawn = rates.on[leader].astype(np.float64)
    chosen = np.zeros(log.num_clients)
    chosen[leader] = 1.0
    a_slot = per_slot(log.present, log.num_slots, chosen)
    batch = max(1, round(float(a_slot.mean())))
    separation = min(gaps.separation, len(leader) // batch - 1)
    share = (drawn + 0.5) / (rates.watched[leader] + 1)
    parameters: dict[str, Any] = {
        "weights": _plain(odds(share, batch, separation)),
        "batch": batch,
        "separation": separation,
    }
    return parameters | ({"groups": unit.tolist()} if together else {})


def _diurnal(log: Log, rates: Rates, cycle: Cycle, forgets: Mixing) -> tuple[dict[str, Any], float]:
    """One course of the day for all; a mean, an amplitude, a time zone and a persistence for each client.

    Who clearly has a day of its own is given its own zone, by the phase of its first harmonic; the others are given the
    fleet's. The course is the mean of all profiles, laid over each other by zone. With v = A² mean(f²) the variance
    that the day gives a client and r its autocorrelation one slot on, λ is what is left of the correlation of
    neighbouring slots, (λ̂ π(1-π) - v r) / (π(1-π) - v). Also gives the slowness of the clients.
    """
    period = max(2, round(cycle.period))
    ahead = _zones(log, cycle)
    profile = _profiles(log, cycle.period, ahead)
    shape = _course(profile, rates)
    pi, lam = feasible(rates)
    amplitude = np.clip(_amplitudes(profile, shape, cycle), 0, None)
    room = np.minimum((1 - pi) / shape.max(), pi / -shape.min())
    amplitude = np.array(_plain(np.maximum(np.minimum(amplitude, room) * (1 - 1e-5), 0)))
    moved = amplitude**2 * float((shape**2).mean())
    fine = np.interp((np.arange(period) + 0.5) / period * HOURS, np.arange(HOURS) + 0.5, shape, period=HOURS)
    course = np.array([(fine * np.roll(fine, -int(s))).mean() for s in (1, *forgets.lags)]) / (fine**2).mean()
    own = pi * (1 - pi)
    persistence = (np.maximum(lam, 0) * own - moved * course[0]) / np.maximum(own - moved, 1e-9)
    persistence = np.clip(persistence, 0, HIGHEST)
    slowness = _slowness(forgets, persistence, np.minimum(moved / np.maximum(own, 1e-9), 1), course[1:])
    start = log.clock_start / log.slot_seconds / cycle.period * HOURS if log.slot_seconds else 0.0
    parameters = {
        "rounds_per_day": period,
        "mean": _plain(pi),
        "amplitude": _plain(amplitude),
        "shape": _plain(shape),
        "zones": _plain(np.mod(ahead + start, HOURS)),
        "lam": _plain(_slowed(persistence, slowness)),
    }
    return parameters, slowness


def _has_own_day(cycle: Cycle) -> Bool[np.ndarray, " clients"]:
    """Whose phase is known well enough to be its own; a wrong one costs less than the fleet's for all."""
    return (cycle.client_p_value < OWN_DAY) & np.isfinite(cycle.client_peak)


def _zones(log: Log, cycle: Cycle) -> PerClient:
    """Hours (24ths of the cycle) by which each client is ahead of the fleet."""
    unit = cycle.period * (log.slot_seconds / 3600 if log.slot_seconds else 1.0)
    clear = _has_own_day(cycle)
    if not clear.any():
        return np.zeros(log.num_clients)
    turn = np.exp(2j * np.pi * np.where(clear, cycle.client_peak, 0.0) / unit)
    weight = np.where(clear, cycle.client_amplitude, 0.0)
    middle = np.angle((turn * weight).sum())
    late = np.angle(turn * np.exp(-1j * middle)) / (2 * np.pi) * HOURS
    return np.where(clear, -np.round(late, 1), 0.0)


def _profiles(log: Log, period: float, ahead: PerClient) -> Float[np.ndarray, "clients hours"]:
    """Excess presence of each client by its local hour."""
    count = log.num_clients
    start = log.clock_start / log.slot_seconds if log.slot_seconds else 0.0
    hour = np.mod((np.arange(log.num_slots) + 0.5 + start) / period, 1.0) * HOURS
    there, seen = np.empty((count, HOURS)), np.empty((count, HOURS))
    for h in range(HOURS):
        inside = (hour.astype(np.int64) == h).astype(np.float64)
        there[:, h] = over_runs(log.present, inside, count)
        seen[:, h] = over_runs(watched_runs(log), inside, count)
    mean = there.sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    excess = np.where(seen > 0, there / np.maximum(seen, 1) - mean, 0.0)
    # Local hour h is the log's hour h - ahead.
    local = np.mod(np.arange(HOURS)[None, :] - np.round(ahead)[:, None].astype(np.int64), HOURS)
    return np.take_along_axis(excess, local, axis=1)


def _course(profile: Float[np.ndarray, "clients hours"], rates: Rates) -> Float[np.ndarray, " hours"]:
    """Mean profile, smoothed by its first harmonics, of mean 0 and height 1."""
    mean = (profile * rates.watched[:, None]).sum(axis=0)
    basis = harmonics((np.arange(HOURS) + 0.5) / HOURS, SMOOTH)
    smooth = basis @ (basis.T @ mean) / (HOURS / 2)
    smooth = smooth - smooth.mean()
    if smooth.max() <= 0:
        smooth = np.cos(2 * np.pi * np.arange(HOURS) / HOURS)
    return np.array(_plain(smooth / smooth.max()))


def _amplitudes(
    profile: Float[np.ndarray, "clients hours"], shape: Float[np.ndarray, " hours"], cycle: Cycle
) -> PerClient:
    """How far each client swings along the common course: by its first harmonic, of which noise was taken off."""
    projected = profile @ shape / (shape @ shape)
    harmonic = 2 * np.abs(np.mean(shape * np.exp(-2j * np.pi * np.arange(HOURS) / HOURS)))
    own = cycle.client_amplitude / harmonic
    return np.where(_has_own_day(cycle), own, np.minimum(projected, own))
