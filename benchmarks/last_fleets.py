"""Fleets of kinds that were written after all others, to be played once, when no limit is chosen any more.

Supernodes of a telephone network, after Guha, Daswani and Jain (2006); hosts of a file-sharing network by the hour of
the day, after Bhagwan, Savage and Voelker (2003); home gateways, after Grover et al. (2013); phones of which a server
draws a few of those that charge, after Yang et al. (2018); laptops of a campus by the timetable, after Kotz and Essien
(2005). Numbers are round ones of the same size as theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from churn_fleets import Draw, course, spell_law
from shifting_fleets import DAY, HOUR, Fleet

from turnout.workbench.diagnosis.reading.log import Log

RHYTHMS = frozenset({"daily", "weekly"})


def supernodes(draw: Draw) -> Fleet:
    """Sessions of some hours, log-normal, most of them begun on working days; absences with a heavy tail."""
    clients, weeks = int(draw.integers(60, 201)), int(draw.integers(3, 7))
    slots = weeks * 7 * DAY
    rows = []
    for _ in range(clients):
        laws = spell_law(draw, "lognormal", draw.uniform(4, 12)), spell_law(draw, "lomax", draw.uniform(8, 40))
        row = course(draw, *laws, 0.3, slots)
        hour = np.arange(slots)
        at_work = (hour % DAY >= 8) & (hour % DAY < 20) & (hour // DAY % 7 < 5)
        rows.append(row & (at_work | (draw.random() < 0.4)))
    present = np.array(rows)
    log = Log.from_matrix(present[present.any(axis=1)], slot_seconds=HOUR, dated=True)
    return Fleet(log, frozenset({"daily"}), frozenset({"weekly"}))


def shared_files(draw: Draw) -> Fleet:
    """Hosts that come several times a day, more in the evening of their own zone; independent of one another."""
    clients, slots = int(draw.integers(80, 251)), DAY * int(draw.integers(7, 29))
    hour = np.arange(slots)
    zone, peak = draw.choice([0, 6, 9, 15], clients), draw.normal(20, 2, clients)
    swing, usual = draw.uniform(0.1, 0.8, clients), draw.beta(1.0, 2.0, clients) * 0.9 + 0.03
    stays = draw.uniform(0.3, 0.9, clients)
    phase = np.cos(2 * np.pi * (hour[:, None] + zone - peak) / DAY)
    level = np.clip(usual * (1 + swing * phase), 0.01, 0.98)
    present = np.empty((slots, clients), bool)
    present[0] = draw.random(clients) < level[0]
    for t in range(1, slots):  # with some chance as before, else drawn anew at the level of the hour
        anew = draw.random(clients) >= stays
        present[t] = np.where(anew, draw.random(clients) < level[t], present[t - 1])
    log = Log.from_matrix(present.T.copy(), slot_seconds=HOUR, dated=True)
    return Fleet(log, frozenset(), RHYTHMS | {"cycle"})


def gateways(draw: Draw) -> Fleet:
    """Boxes at home: most are always on but for a minute or a day; some are switched off with the lights."""
    clients, slots = int(draw.integers(60, 201)), DAY * int(draw.integers(20, 61))
    hour, rows = np.arange(slots), []
    for _ in range(clients):
        off = np.where(draw.random(draw.poisson(slots / 300)) < 0.9, draw.exponential(1.5), draw.exponential(20))
        row = np.ones(slots, bool)
        for length in off:
            begin = int(draw.integers(0, slots))
            row[begin : begin + 1 + int(length)] = False
        if draw.random() < 0.15:  # as appliances are
            wakes, sleeps = draw.normal(7, 1), draw.normal(22.5, 1)
            row &= (hour % DAY >= wakes) & (hour % DAY < sleeps) & (draw.random(slots) < 0.95)
        rows.append(row)
    return Fleet(Log.from_matrix(np.array(rows), slot_seconds=HOUR, dated=True), frozenset(), RHYTHMS)


def charging_phones(draw: Draw) -> Fleet:
    """A server draws a few of the phones that charge at night, every quarter of an hour; who is drawn rests."""
    clients, days = int(draw.integers(200, 601)), int(draw.integers(5, 15))
    slots, batch = 4 * DAY * days, int(draw.integers(5, 21))
    begins, length = draw.normal(22.5, 1.5, (clients, 1)), draw.normal(7, 1.5, (clients, 1))
    comes = draw.random((clients, days + 2)) < draw.beta(4, 1.5, (clients, 1))
    begin = DAY * np.arange(-1, days + 1) + begins + draw.normal(0, 0.8, comes.shape)
    end = begin + np.maximum(0.5, length + draw.normal(0, 1, comes.shape))
    present, rested = np.zeros((clients, slots), bool), np.zeros(clients)
    for t in range(slots):
        there = ((begin <= t / 4) & (t / 4 < end) & comes).any(axis=1) & (rested <= t)
        chosen = draw.permutation(np.flatnonzero(there))[:batch]
        present[chosen, t] = True
        rested[chosen] = t + 8
    log = Log.from_matrix(present[present.any(axis=1)], slot_seconds=900.0, dated=True)
    return Fleet(log, frozenset({"daily"}), frozenset({"weekly", "rest"}))


def laptops(draw: Draw) -> Fleet:
    """Laptops of a campus: each has lessons of its own, at hours that many share; fewer sit there at weekends."""
    clients, weeks = int(draw.integers(60, 181)), int(draw.integers(4, 11))
    hours = np.array([9, 10, 11, 13, 14, 15, 16])
    rows = []
    for _ in range(clients):
        week = np.zeros(7 * DAY)
        for day in range(5):
            for hour in draw.choice(hours, int(draw.integers(1, 5)), replace=False):
                week[DAY * day + hour] = draw.uniform(0.6, 0.95)
            week[DAY * day + 18 : DAY * day + 23] = draw.uniform(0.1, 0.7)
        for day in (5, 6):
            week[DAY * day + 11 : DAY * day + 23] = draw.uniform(0.02, 0.4)
        rows.append(draw.random(weeks * len(week)) < np.tile(week, weeks))
    log = Log.from_matrix(np.array(rows), slot_seconds=HOUR, dated=True)
    return Fleet(log, RHYTHMS)


FLEETS: dict[str, Callable[[Draw], Fleet]] = {
    build.__name__: build for build in (supernodes, shared_files, gateways, charging_phones, laptops)
}
