"""Fleets as studies of churn describe them, none of which is drawn from a process of turnout.

Spells online and offline with heavy tails, as measured in peer-to-peer networks: Weibull laws of shape 0.34 to 0.6 and
log-normal ones (Stutzbach and Rejaie 2006; Steiner et al. 2007), Pareto laws (Bustamante and Qiao 2003). Weeks of work
and leisure. Memory over many rounds. A server that draws a few clients of many. A fleet that grows from nothing.
`recognition.py` counts how often something is found that is not there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gamma
from shifting_fleets import HOUR, WEEK, Fleet

from turnout.workbench.diagnosis.reading.log import Log

Draw = np.random.Generator
Lengths = Callable[[Draw, int], np.ndarray]  # of so many spells
LAWS = ("lomax", "weibull", "lognormal", "exponential")


def spell_law(draw: Draw, law: str, mean: float) -> tuple[Lengths, Lengths]:
    """Lengths of spells, and of the rest of the spell that a log begins in, of a stationary fleet."""
    if law == "lomax":  # Pareto's law from zero on; the rest of a spell has one moment less
        shape = draw.uniform(1.2, 1.9)
        scale = mean * (shape - 1)
        return lambda d, n: scale * d.pareto(shape, n), lambda d, n: scale * d.pareto(shape - 1, n)
    if law == "weibull":
        shape = draw.uniform(0.34, 0.6)
        scale = mean / gamma(1 + 1 / shape)
        return (
            lambda d, n: scale * d.weibull(shape, n),
            lambda d, n: d.random(n) * scale * d.gamma(1 + 1 / shape, 1, n) ** (1 / shape),
        )
    if law == "lognormal":
        spread = draw.uniform(1.2, 2.0)
        middle = np.log(mean) - spread**2 / 2
        return (
            lambda d, n: d.lognormal(middle, spread, n),
            lambda d, n: d.random(n) * d.lognormal(middle + spread**2, spread, n),
        )
    return lambda d, n: d.exponential(mean, n), lambda d, n: d.exponential(mean, n)


def course(
    draw: Draw, on: tuple[Lengths, Lengths], off: tuple[Lengths, Lengths], share: float, slots: int
) -> np.ndarray:
    """Presence at the middle of each slot of a client that alternates between spells, from a time on like any other."""
    begins_on = bool(draw.random() < share)
    lengths, total = [(on if begins_on else off)[1](draw, 1)], 0.0
    state = not begins_on
    while total < slots:
        many = 64
        pair = [(on if state else off)[0](draw, many), (off if state else on)[0](draw, many)]
        lengths.append(np.stack(pair, axis=1).ravel())
        total = float(sum(part.sum() for part in lengths))
    ends = np.cumsum(np.concatenate(lengths))
    passed = np.searchsorted(ends, np.arange(slots) + 0.5, side="right")
    return (passed % 2 == 0) == begins_on


def heavy_spells(draw: Draw) -> Fleet:
    """Spells with heavy tails, nothing else; every client has its own means."""
    clients, slots, law = int(draw.integers(60, 151)), int(draw.integers(500, 1501)), draw.choice(LAWS[:3])
    other = draw.choice([law, "exponential"])
    rows = []
    for _ in range(clients):
        mean_on, mean_off = draw.lognormal(2.0, 0.7), draw.lognormal(2.3, 0.7)
        laws = spell_law(draw, law, mean_on), spell_law(draw, other, mean_off)
        rows.append(course(draw, *laws, mean_on / (mean_on + mean_off), slots))
    return Fleet(Log.from_matrix(np.array(rows)), frozenset())


def weekly_rhythm(draw: Draw) -> Fleet:
    """Machines at work, from Monday to Friday, and some at home in the evening and all weekend; nobody leaves.

    In every other fleet they are there only in some of their hours; every other log ends on a Sunday.
    """
    clients, weeks, start = int(draw.integers(40, 101)), int(draw.integers(3, 9)), int(draw.integers(0, WEEK))
    slots = weeks * WEEK + (-start % WEEK if draw.random() < 0.5 else int(draw.integers(0, WEEK)))
    flickers = draw.random() < 0.5
    rows = []
    for _ in range(clients):
        at_work = draw.random() < 0.8
        begin, length, comes = draw.normal(8.5, 1), draw.normal(8, 1.5), draw.uniform(0.75, 1)
        present = np.zeros(slots + 2 * WEEK, bool)
        for day in range(len(present) // 24):
            weekend = day % 7 >= 5
            if draw.random() > comes or (at_work and weekend):
                continue
            first = (begin if at_work or weekend else begin + 9) + draw.normal(0, 0.6)
            last = first + max(1.0, length * (1.4 if weekend else 1.0 if at_work else 0.5) + draw.normal(0, 0.8))
            present[24 * day + max(0, round(first)) : 24 * day + round(last)] = True
        if flickers:
            present &= draw.random(len(present)) < draw.uniform(0.4, 0.8)
        rows.append(present[start : start + slots])
    log = Log.from_matrix(np.array(rows), slot_seconds=HOUR, clock_start=start * HOUR, dated=True)
    return Fleet(log, frozenset({"daily", "weekly"}))


def long_memory(draw: Draw) -> Fleet:
    """Many clients, thousands in every other fleet, that stay as they are for some twenty rounds."""
    clients, slots = round(draw.choice([1, 10]) * draw.uniform(300, 1500)), int(draw.integers(150, 601))
    if draw.random() < 0.5:  # a level of activity that wanders, and a limit above which the client is there
        level, fade = draw.normal(size=clients), np.exp(-1 / 20)
        limit, rows = draw.normal(0, 0.7, clients), []
        for _ in range(slots):
            level = fade * level + np.sqrt(1 - fade**2) * draw.normal(size=clients)
            rows.append(level > limit)
        return Fleet(Log.from_matrix(np.array(rows).T.copy()), frozenset())
    rows = []
    for _ in range(clients):
        mean_on, mean_off = draw.uniform(15, 30), draw.uniform(15, 30) * draw.choice([1, 3])
        laws = spell_law(draw, "exponential", mean_on), spell_law(draw, "exponential", mean_off)
        rows.append(course(draw, *laws, mean_on / (mean_on + mean_off), slots))
    return Fleet(Log.from_matrix(np.array(rows)), frozenset())


def drawn(draw: Draw, clients: int, batch: int, rounds: int) -> Log:
    """A server that draws the same number of clients in every round, all alike."""
    order = np.argsort(draw.random((rounds, clients)), axis=1)[:, :batch]
    present = np.zeros((clients, rounds), bool)
    present[order.ravel(), np.repeat(np.arange(rounds), batch)] = True
    return Log.from_matrix(present)


def rarely_drawn(draw: Draw) -> Fleet:
    """Drawn uniformly and rarely: a client in a few of the rounds."""
    clients, rounds = int(draw.integers(100, 1001)), int(draw.integers(100, 501))
    return Fleet(drawn(draw, clients, int(draw.integers(5, 21)), rounds), frozenset(), equal=True)


def growing(draw: Draw) -> Fleet:
    """A fleet that grows from nothing: clients join one after another, and nobody is there at first."""
    clients, slots = int(draw.integers(60, 121)), int(draw.integers(300, 801))
    joins = np.sort(draw.uniform(0, draw.uniform(0.5, 0.9), clients) * slots)
    rows = []
    for join in joins:
        mean_on, mean_off = draw.lognormal(0.8, 0.7), draw.lognormal(1.2, 0.7)
        laws = spell_law(draw, "exponential", mean_on), spell_law(draw, "exponential", mean_off)
        rows.append(course(draw, *laws, 1.0, slots) & (np.arange(slots) >= join))
    seen = [row for row in rows if row.any()]  # a log does not name who never came
    return Fleet(Log.from_matrix(np.array(seen)), frozenset({"churn"}), frozenset({"drift", "client drift"}))


def ten_of_a_hundred(draw: Draw) -> Fleet:
    """Ten of a hundred, drawn uniformly for 300 rounds."""
    return Fleet(drawn(draw, 100, 10, 300), frozenset(), equal=True)


FLEETS: dict[str, Callable[[Draw], Fleet]] = {
    build.__name__: build
    for build in (heavy_spells, weekly_rhythm, long_memory, rarely_drawn, growing, ten_of_a_hundred)
}
