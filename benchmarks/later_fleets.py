"""Fleets of kinds that were written and played only after all limits of the diagnosis had been chosen.

Desktops of a company, after Bolosky, Douceur, Ely and Theimer (2000); cascades of messages, after Malmgren, Stouffer,
Motter and Amaral (2008); hosts of volunteers, after Javadi, Kondo, Vincent and Anderson (2009). Numbers are round ones
of the same size as theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from churn_fleets import Draw, course
from shifting_fleets import DAY, HOUR, Fleet

from turnout.workbench.diagnosis.reading.log import Log


def desktops(draw: Draw) -> Fleet:
    """Machines of a company, asked every hour for five weeks: some never switched off, but restarted at times.

    Others are on while their owner is at work, with days of absence; the rest are switched on and off at any hour.
    """
    clients, slots = int(draw.integers(60, 201)), 35 * DAY
    hour, rows = np.arange(slots), []
    for _ in range(clients):
        kind = draw.choice(3, p=[0.45, 0.35, 0.2])
        if kind == 0:
            row = np.ones(slots, bool)
            for restart in draw.integers(0, slots, draw.poisson(8)):
                row[restart : restart + 1 + int(draw.exponential(3))] = False
        elif kind == 1:
            comes = (draw.random(36) < draw.uniform(0.8, 1)) & (np.arange(36) % 7 < 5)
            begin, end = draw.normal(8.5, 0.8) + draw.normal(0, 0.5, 36), draw.normal(17.5, 1.2) + draw.normal(0, 1, 36)
            stays = draw.random(36) < 0.1  # left on overnight
            day = hour // DAY
            row = comes[day] & (hour % DAY >= begin[day]) & ((hour % DAY < end[day]) | stays[day])
        else:
            means = draw.lognormal(2.5, 0.7), draw.lognormal(2.5, 0.7)
            laws = [(lambda d, n, m=mean: d.exponential(m, n),) * 2 for mean in means]
            row = course(draw, *laws, means[0] / sum(means), slots)
        rows.append(row)
    log = Log.from_matrix(np.array(rows), slot_seconds=HOUR, dated=True)
    return Fleet(log, frozenset({"daily"}), frozenset({"weekly"}))


def cascades(draw: Draw) -> Fleet:
    """People who write messages: a first one by the hour of the day and the week, and each begins a cascade of more."""
    clients, weeks = int(draw.integers(60, 151)), int(draw.integers(4, 11))
    slots = weeks * 7 * DAY
    hour = np.arange(slots)
    rows = []
    for _ in range(clients):
        begin, end = draw.normal(8, 1), draw.normal(21, 2)
        active = (hour % DAY >= begin) & (hour % DAY < end)
        weekend = np.where(hour // DAY % 7 >= 5, draw.uniform(0.1, 0.8), 1.0)
        first = np.flatnonzero(draw.random(slots) < draw.uniform(0.5, 3) / 13 * active * weekend)
        row = np.zeros(slots, bool)
        for at in first:
            gaps = draw.exponential(draw.uniform(0.3, 1.5), draw.geometric(1 / draw.uniform(2, 6)))
            places = (at + np.cumsum(gaps)).astype(np.int64)
            row[places[places < slots]] = True
            row[at] = True
        rows.append(row)
    log = Log.from_matrix(np.array(rows), slot_seconds=HOUR, dated=True)
    return Fleet(log, frozenset({"daily"}), frozenset({"weekly"}))


def volunteers(draw: Draw) -> Fleet:
    """Hosts of volunteers in six groups: gamma laws of shape below one online, hyper-exponential ones offline.

    A group shares its laws, not its hours.
    """
    clients, slots = int(draw.integers(80, 201)), int(draw.integers(500, 1501))
    groups = [
        (draw.uniform(0.3, 0.9), draw.lognormal(2.5, 0.6), draw.uniform(0.6, 0.9), draw.lognormal(1, 0.4), 10.0)
        for _ in range(6)
    ]
    rows = []
    for _ in range(clients):
        shape, mean_on, share, short, times = groups[draw.integers(6)]
        mean_off = short * (share + (1 - share) * times)

        def on(d: Draw, n: int, shape: float = shape, mean: float = mean_on) -> np.ndarray:
            return d.gamma(shape, mean / shape, n)

        def rest_on(d: Draw, n: int, shape: float = shape, mean: float = mean_on) -> np.ndarray:
            return d.random(n) * d.gamma(shape + 1, mean / shape, n)

        def off(d: Draw, n: int, share: float = share, short: float = short, times: float = times) -> np.ndarray:
            return d.exponential(np.where(d.random(n) < share, short, short * times))

        def rest_off(d: Draw, n: int, share: float = share, short: float = short, times: float = times) -> np.ndarray:
            by_time = share / (share + (1 - share) * times)
            return d.exponential(np.where(d.random(n) < by_time, short, short * times))

        rows.append(course(draw, (on, rest_on), (off, rest_off), mean_on / (mean_on + mean_off), slots))
    return Fleet(Log.from_matrix(np.array(rows)), frozenset())


FLEETS: dict[str, Callable[[Draw], Fleet]] = {build.__name__: build for build in (desktops, cascades, volunteers)}
