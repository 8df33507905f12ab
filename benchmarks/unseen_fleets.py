"""Fleets of kinds that no limit of the diagnosis was chosen on at first.

They were written before the findings were mended, and played only after that: see `docs/theory/diagnosis.md`. Two
kinds, bursts and a holiday week, had false findings; limits were then chosen on some of these, with other seeds. Where
a kind has a rhythm, an outage or newcomers, these are true of it; everything else that is found is false.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from churn_fleets import Draw, course, spell_law
from shifting_fleets import HOUR, Fleet

from turnout.workbench.diagnosis.reading.log import Log

NEVER_SURE = frozenset({"daily", "weekly", "cycle"})  # a rhythm that is there but may be too weak to be seen


def holiday_week(draw: Draw) -> Fleet:
    """People who log in on some days of the week; for one week somewhere most of them are on holiday.

    That the level of the fleet changes then is true.
    """
    clients, weeks = int(draw.integers(60, 121)), int(draw.integers(5, 11))
    days = 7 * weeks
    holiday = 7 * int(draw.integers(1, weeks - 1))
    weekend = np.where(np.arange(days) % 7 >= 5, draw.uniform(0.2, 0.8), 1.0)
    comes = draw.uniform(0.3, 0.95, clients)[:, None] * weekend
    comes[:, holiday : holiday + 7] *= np.where(draw.random(clients) < 0.7, 0.0, 1.0)[:, None]
    there = draw.random((clients, days)) < comes
    hours = np.zeros((clients, days, 24), bool)
    begin, length = draw.normal(9, 2, (clients, 1)), draw.normal(7, 2, (clients, 1))
    first = begin + draw.normal(0, 0.7, (clients, days))
    clock = np.arange(24)
    hours |= (first[:, :, None] <= clock) & (clock < (first + np.maximum(length, 1))[:, :, None]) & there[:, :, None]
    log = Log.from_matrix(hours.reshape(clients, -1), slot_seconds=HOUR, dated=True)
    return Fleet(log, frozenset({"daily"}), frozenset({"weekly", "drift", "client drift"}))


def drifting_phase(draw: Draw) -> Fleet:
    """People whose day is longer than 24 hours, or who travel: the hour at which they come moves through the clock."""
    clients, days = int(draw.integers(40, 101)), int(draw.integers(20, 61))
    slots = 24 * days
    own_day = 24 + draw.normal(0, 0.25, clients)
    begin, length = draw.uniform(0, 24, clients), draw.uniform(4, 10, clients)
    rows = []
    for k in range(clients):
        turns = int(slots / own_day[k]) + 2
        starts = begin[k] - own_day[k] + own_day[k] * np.arange(turns) + draw.normal(0, 1, turns)
        comes = draw.random(turns) < draw.uniform(0.6, 1)
        hour = np.arange(slots)
        inside = (starts[:, None] <= hour) & (hour < starts[:, None] + length[k]) & comes[:, None]
        rows.append(inside.any(axis=0))
    return Fleet(Log.from_matrix(np.array(rows), slot_seconds=HOUR), frozenset(), NEVER_SURE)


def firmware_pauses(draw: Draw) -> Fleet:
    """Devices of four makes; each make pauses once for an update, no longer than many absences."""
    clients, slots = int(draw.integers(60, 141)), int(draw.integers(400, 1001))
    make = draw.integers(0, 4, clients)
    pause = draw.integers(slots // 5, 4 * slots // 5, 4)
    rows = []
    for k in range(clients):
        mean_on, mean_off = draw.lognormal(1.5, 0.5), draw.lognormal(1.8, 0.5)
        laws = spell_law(draw, "weibull", mean_on), spell_law(draw, "weibull", mean_off)
        row = course(draw, *laws, mean_on / (mean_on + mean_off), slots)
        row[pause[make[k]] : pause[make[k]] + int(draw.integers(3, 9))] = False
        rows.append(row)
    return Fleet(Log.from_matrix(np.array(rows)), frozenset())


def bursts(draw: Draw) -> Fleet:
    """Contacts that excite more contacts of the same client, so that they come in bursts with long pauses (Hawkes)."""
    clients, slots = int(draw.integers(60, 151)), int(draw.integers(500, 1501))
    rate, children, fade = draw.lognormal(-3.5, 0.6, clients), draw.uniform(0.5, 0.85), draw.uniform(3, 30)
    excited, rows = np.zeros(clients), []
    for t in range(-300, slots):
        contacts = draw.poisson(rate + excited)
        excited = (excited + contacts * children / fade) * np.exp(-1 / fade)
        if t >= 0:
            rows.append(contacts > 0)
    present = np.array(rows).T
    return Fleet(Log.from_matrix(present[present.any(axis=1)]), frozenset())


def quotas(draw: Draw) -> Fleet:
    """Clients that may take part only so often in every stretch of rounds, and then wait for the next one.

    The stretches begin at other rounds for every client. A rest between participations is not true of them.
    """
    clients, slots = int(draw.integers(60, 151)), int(draw.integers(300, 901))
    stretch = int(draw.integers(15, 50))
    begin, quota = draw.integers(0, stretch, clients), draw.integers(1, 6, clients)
    willing = draw.uniform(0.1, 0.7, clients)
    left, rows = quota.copy(), []
    for t in range(-stretch, slots):
        left = np.where((t - begin) % stretch == 0, quota, left)
        comes = (draw.random(clients) < willing) & (left > 0)
        left = left - comes
        if t >= 0:
            rows.append(comes)
    return Fleet(Log.from_matrix(np.array(rows).T.copy()), frozenset(), frozenset({"cycle", "rest"}))


def rounded_to_hours(draw: Draw) -> Fleet:
    """Spells with heavy tails, logged in slots of ten minutes, but with times that were rounded to full hours."""
    clients, hours = int(draw.integers(50, 121)), int(draw.integers(120, 401))
    rows = []
    for _ in range(clients):
        mean_on, mean_off = draw.lognormal(1.2, 0.6), draw.lognormal(1.6, 0.6)
        laws = spell_law(draw, "lognormal", mean_on), spell_law(draw, "exponential", mean_off)
        rows.append(np.repeat(course(draw, *laws, mean_on / (mean_on + mean_off), hours), 6))
    return Fleet(Log.from_matrix(np.array(rows), slot_seconds=600.0), frozenset())


def late_and_repeated_rows(draw: Draw) -> Fleet:
    """A server's draw of whom is online; rows are written one to three rounds late at times, or twice."""
    clients, rounds, batch = int(draw.integers(80, 301)), int(draw.integers(200, 601)), int(draw.integers(5, 16))
    laws = [spell_law(draw, "lognormal", mean) for mean in (20.0, 20.0)]
    online = np.array([course(draw, laws[0], laws[1], 0.5, rounds) for _ in range(clients)])
    present = np.zeros((clients, rounds + 3), bool)
    for t in range(rounds):
        those = draw.permutation(np.flatnonzero(online[:, t]))[:batch]
        late = np.where(draw.random(len(those)) < 0.1, draw.integers(1, 4, len(those)), 0)
        present[those, t + late] = True
        again = those[draw.random(len(those)) < 0.05]
        present[again, t + 1] = True
    present = present[:, :rounds]
    return Fleet(Log.from_matrix(present[present.any(axis=1)]), frozenset())


def wandering_activity(draw: Draw) -> Fleet:
    """Everyone comes more or less often with news that comes and fades: a common level that wanders and returns."""
    clients, slots = int(draw.integers(60, 201)), int(draw.integers(500, 1201))
    level, news = np.zeros(slots), 0.0
    fade = np.exp(-1 / draw.uniform(5, 25))
    for t in range(slots):
        news = fade * news + np.sqrt(1 - fade**2) * draw.normal()
        level[t] = news
    usual = draw.normal(-0.8, 0.7, clients)[:, None]
    chance = 1 / (1 + np.exp(-(usual + draw.uniform(0.2, 0.8) * level)))
    return Fleet(Log.from_matrix(draw.random(chance.shape) < chance), frozenset())


def charge_cycles(draw: Draw) -> Fleet:
    """Devices that need charge: each runs until its battery is empty and then waits for a time of its own."""
    clients, slots = int(draw.integers(60, 151)), int(draw.integers(400, 1001))
    full, drain, gain = draw.uniform(5, 20, clients), draw.uniform(0.5, 2, clients), draw.uniform(0.2, 1, clients)
    charge, runs, rows = draw.random(clients) * full, draw.random(clients) < 0.5, []
    for t in range(-400, slots):
        charge = charge + np.where(runs, -drain, gain) * draw.lognormal(-0.18, 0.6, clients)
        runs = np.where(charge <= 0, False, np.where(charge >= full, True, runs))
        charge = np.clip(charge, 0, full)
        if t >= 0:
            rows.append(runs)
    return Fleet(Log.from_matrix(np.array(rows).T.copy()), frozenset(), frozenset({"cycle"}))


def few_rounds(draw: Draw) -> Fleet:
    """A short log of a fleet with rates of all kinds: twenty to sixty rounds."""
    clients, slots = int(draw.integers(20, 201)), int(draw.integers(20, 61))
    rates = draw.beta(0.6, 1.2, clients)[:, None]
    present = draw.random((clients, slots)) < rates
    return Fleet(Log.from_matrix(present[present.any(axis=1)]), frozenset())


FLEETS: dict[str, Callable[[Draw], Fleet]] = {
    build.__name__: build
    for build in (
        *(holiday_week, drifting_phase, firmware_pauses, bursts, quotas, rounded_to_hours),
        *(late_and_repeated_rows, wandering_activity, charge_cycles, few_rounds),
    )
}
