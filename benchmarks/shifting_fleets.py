"""Fleets that tempt a diagnosis: their clients are independent, but share nights, weekends, outages or a beginning.

A fleet is a log and the findings that are true of it. `recognition.py` counts how often each is found, and how often
another one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from turnout.workbench.diagnosis.findings.all_findings import Findings, examine
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.ranking import FAIR

CLIENTS, SLOTS = 60, 600
HOUR = 3600.0
DAY, WEEK = 24, 168  # slots


@dataclass(frozen=True)
class Fleet:
    """A log, what is true of it, and what may be said of it or not."""

    log: Log
    true: frozenset[str]
    neither: frozenset[str] = frozenset()  # follows from what is true
    equal: bool = False  # all clients come equally often, so that no strategy has anything to cure


@dataclass(frozen=True)
class Shown:
    """What is true of one log, what was found, and what of that is false."""

    true: frozenset[str]
    found: set[str]
    false: set[str]


def chain(draw: np.random.Generator, chance: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Chains of persistence λ whose chance of being on is a row of `chance` in each slot, as in the diurnal process."""
    present = np.empty(chance.shape, bool)
    present[0] = draw.random(chance.shape[1]) < chance[0]
    for t in range(1, len(chance)):
        was, now = chance[t - 1], chance[t]
        lam_now = np.minimum(lam, np.minimum(now / was, (1 - now) / (1 - was)))
        present[t] = draw.random(chance.shape[1]) < now + lam_now * (present[t - 1] - was)
    return present.T.copy()


def nights(draw: np.random.Generator, zones: bool = False, groups: np.ndarray | None = None) -> np.ndarray:
    """Phones on their chargers: a session in most nights, with a start and a length that differ from night to night.

    Clients of the same group (0, 1, …; -1: alone) stay away in the same nights.
    """
    days = SLOTS // DAY
    begins, length = draw.normal(23, 1, CLIENTS), draw.normal(7, 1, CLIENTS)
    begins = begins + (draw.integers(0, DAY, CLIENTS) if zones else 0)
    comes = draw.random((CLIENTS, days + 3)) < draw.uniform(0.5, 1, CLIENTS)[:, None]
    if groups is not None:
        in_group = groups >= 0
        comes[in_group] = (draw.random((groups.max() + 1, days + 3)) < 0.6)[groups[in_group]]
    begin = DAY * np.arange(-2, days + 1) + begins[:, None] + draw.normal(0, 0.7, comes.shape)
    end = begin + np.maximum(0.5, length[:, None] + draw.normal(0, 1, comes.shape))
    hour = np.arange(SLOTS) + 0.5
    inside = (begin[:, :, None] <= hour) & (hour < end[:, :, None]) & comes[:, :, None]
    return inside.any(axis=1)


def steady(draw: np.random.Generator) -> Fleet:
    """Clients with memory or without, and nothing else."""
    pi, lam = draw.uniform(0.05, 0.9, CLIENTS), draw.choice([0.0, 0.5, 0.8], CLIENTS)
    return Fleet(Log.from_matrix(chain(draw, np.tile(pi, (SLOTS, 1)), lam)), frozenset())


def nightly(draw: np.random.Generator) -> Fleet:
    return Fleet(Log.from_matrix(nights(draw), slot_seconds=HOUR), frozenset({"daily"}))


def time_zones(draw: np.random.Generator) -> Fleet:
    return Fleet(Log.from_matrix(nights(draw, zones=True), slot_seconds=HOUR), frozenset({"daily"}))


def nightly_company(draw: np.random.Generator) -> Fleet:
    """A third of the phones stay away together, in groups of four."""
    groups = np.r_[np.repeat(np.arange(5), 4), np.full(CLIENTS - 20, -1)]
    return Fleet(Log.from_matrix(nights(draw, groups=groups), slot_seconds=HOUR), frozenset({"daily", "company"}))


def outage(draw: np.random.Generator) -> Fleet:
    """Independent clients; the server is down for 10 to 60 rounds."""
    present = draw.random((CLIENTS, SLOTS)) < draw.uniform(0.05, 0.9, CLIENTS)[:, None]
    first, length = int(draw.integers(60, 480)), int(draw.integers(10, 60))
    present[:, first : first + length] = False
    return Fleet(Log.from_matrix(present), frozenset({"outage"}))


def nightly_outage(draw: np.random.Generator) -> Fleet:
    """Phones at night; the server is down for two to four days."""
    present = nights(draw)
    first, length = int(draw.integers(60, 450)), int(draw.integers(2 * DAY, 4 * DAY))
    present[:, first : first + length] = False
    return Fleet(Log.from_matrix(present, slot_seconds=HOUR), frozenset({"daily", "outage"}))


def weekly(draw: np.random.Generator) -> Fleet:
    """Phones by day, far fewer at weekends."""
    t = np.arange(SLOTS)[:, None]
    by_day = 0.5 + 0.5 * np.cos(2 * np.pi * (t % DAY - 14) / DAY)
    weekend = np.where(t % WEEK // DAY >= 5, 0.3, 1.0)
    chance = 0.02 + draw.uniform(0.3, 0.9, CLIENTS) * by_day * weekend
    lam = draw.uniform(0, 0.6, CLIENTS)
    return Fleet(Log.from_matrix(chain(draw, chance, lam), slot_seconds=HOUR), frozenset({"daily", "weekly"}))


def growth(draw: np.random.Generator) -> Fleet:
    """Half of the clients are there from the start; the others join one after another."""
    joins = np.r_[np.zeros(CLIENTS // 2), draw.uniform(0, 0.8 * SLOTS, CLIENTS - CLIENTS // 2)]
    return _members(draw, joins, np.full(CLIENTS, SLOTS))


def churn(draw: np.random.Generator) -> Fleet:
    """A quarter of the clients leaves for good, another quarter joins late."""
    quarter = CLIENTS // 4
    joins, leaves = np.zeros(CLIENTS), np.full(CLIENTS, float(SLOTS))
    joins[:quarter] = draw.uniform(0.1, 0.9, quarter) * SLOTS
    leaves[-quarter:] = draw.uniform(0.1, 0.9, quarter) * SLOTS
    return _members(draw, joins, leaves)


def _members(draw: np.random.Generator, joins: np.ndarray, leaves: np.ndarray) -> Fleet:
    pi, lam = draw.uniform(0.1, 0.9, CLIENTS), draw.uniform(0, 0.8, CLIENTS)
    present = chain(draw, np.tile(pi, (SLOTS, 1)), lam)
    t = np.arange(SLOTS)
    present &= (t >= joins[:, None]) & (t < leaves[:, None])
    return Fleet(Log.from_matrix(present), frozenset({"churn"}), frozenset({"drift", "client drift"}))


Build = Callable[[np.random.Generator], Fleet]
FLEETS: dict[str, Build] = {
    build.__name__: build
    for build in (steady, nightly, time_zones, nightly_company, outage, nightly_outage, weekly, growth, churn)
}


def findings_of(findings: Findings) -> set[str]:
    """The findings of a log, by short names."""
    cycles = findings.cycles
    shown = {
        "company": findings.clusters.count > 0,
        "daily": cycles.daily is not None and cycles.daily.found,
        "weekly": cycles.weekly is not None and cycles.weekly.found,
        "cycle": cycles.unnamed is not None and cycles.unnamed.found,
        "outage": findings.outages.found,
        "churn": bool((findings.drift.arrived_late | findings.drift.vanished).any()),
        "drift": findings.drift.found,
        "client drift": bool(findings.drift.drifting.any()),
        "rest": findings.gaps.separated,
    }
    return {name for name, is_shown in shown.items() if is_shown}


def false_findings(fleet: Fleet, findings: Findings) -> set[str]:
    """What is found but not true; *cure* is a distance beyond chance where all clients come equally often."""
    cure = {"cure"} if fleet.equal and findings.weights.beyond_chance >= FAIR else set()
    return (findings_of(findings) - fleet.true - fleet.neither) | cure


def play_all(seeds: range, fleets: dict[str, Build] | None = None) -> dict[str, list[Shown]]:
    """What is found in the logs of every fleet, one per seed."""
    played: dict[str, list[Shown]] = {}
    for name, build in (FLEETS if fleets is None else fleets).items():
        played[name] = []
        for seed in seeds:
            fleet = build(np.random.default_rng(seed))
            findings = examine(fleet.log)
            played[name].append(Shown(fleet.true, findings_of(findings), false_findings(fleet, findings)))
    return played


def rates_of(played: dict[str, list[Shown]]) -> dict[str, tuple[dict[str, float], dict[str, float], float]]:
    """For every fleet: how often each true finding is made, how often each false one, and how often any false one."""
    table = {}
    for name, logs in played.items():
        true = {finding: float(np.mean([finding in log.found for log in logs])) for finding in sorted(logs[0].true)}
        wrong = sorted(set().union(*(log.false for log in logs)))
        false = {finding: float(np.mean([finding in log.false for log in logs])) for finding in wrong}
        table[name] = true, false, float(np.mean([bool(log.false) for log in logs]))
    return table


def report(played: dict[str, list[Shown]]) -> str:
    """One line per fleet."""
    number = max(map(len, played.values()))
    lines = [f"{number} fleets each            true findings                   any false   false findings"]
    for name, (true, false, any_false) in rates_of(played).items():
        shown = (
            ", ".join(f"{finding} {100 * share:.3g} %" for finding, share in part.items()) for part in (true, false)
        )
        of_true, of_false = (words or "–" for words in shown)
        lines.append(f"  {name:27}{of_true:32}{100 * any_false:7.3g} %   {of_false}")
    return "\n".join(lines)
