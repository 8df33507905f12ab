"""Logs of fleets whose work is known: a server asks everybody who is there, and closes at a quorum."""

import numpy as np


def rows_of_rounds(lengths, rounds, pi=1.0, quorum=1.0, seed=0):
    """Rows (round, client, started, ended); the answers that come after the quorum are not waited for, and lost.

    `lengths(draw)` are the seconds of every client this time. Who is late works on and is not asked meanwhile.
    """
    draw, clock, rows = np.random.default_rng(seed), 0.0, []
    free = None
    for number in range(rounds):
        seconds = lengths(draw)
        free = np.zeros(len(seconds)) if free is None else free
        there = np.flatnonzero((draw.random(len(seconds)) < pi) & (free <= clock))
        if not len(there):
            clock = float(free.min())
            continue
        ends = clock + seconds[there]
        close = np.sort(ends)[int(np.ceil(quorum * len(there))) - 1]
        rows += [(number, k, clock, end if end <= close else np.nan) for k, end in zip(there, ends, strict=True)]
        free[there] = ends
        clock = float(close)
    return rows


def lines(rows, header="round,client,started,ended"):
    """The rows as lines of a file."""
    return [header, *(",".join("" if np.isnan(value) else f"{value:.10g}" for value in row) for row in rows)]


def lognormal(median, sigma):
    """Lengths that are drawn anew around each client's median."""
    return lambda draw: median * np.exp(sigma * draw.standard_normal(len(median)))
