"""The formula that goes with a pace."""

from __future__ import annotations

import numpy as np

from turnout.declarations import NotNegative, checked
from turnout.paces import Buffered, Clocked, Pace, Rounds
from turnout.theory.time.arrivals import UsedUpdates
from turnout.theory.time.buffered import buffered_arrivals
from turnout.theory.time.clients import Durations, Leaving, Shared, read_durations
from turnout.theory.time.clocked import clocked_arrivals
from turnout.theory.time.rounds import round_arrivals


@checked
def pace_arrivals(
    pace: Pace,
    pi: Shared,
    lam: Shared,
    durations: Durations,
    leaving: Leaving = "continue",
    exponent: NotNegative = 0.0,
) -> UsedUpdates:
    """Arrivals at a server that keeps this pace and asks everybody who is there, as many as it may, drawn uniformly.

    `buffered_arrivals`, `round_arrivals` or `clocked_arrivals`, whichever it is. A ValueError for what has no formula:
    a cap on rounds or on a clocked server, and paces of one's own; an audit plays them.
    """
    table = read_durations(durations)
    pace.check(table.shape[0], shortest=int(np.flatnonzero(table.any(axis=0))[0]))
    if isinstance(pace, Buffered):
        cap = None if pace.concurrency is None else int(pace.concurrency)
        return buffered_arrivals(pi, lam, table, int(pace.size), cap, leaving, exponent=exponent)
    if not isinstance(pace, Rounds | Clocked):
        raise ValueError(f"pace: there is no formula for {type(pace).__name__}; audit it instead")
    if pace.concurrency is not None and int(pace.concurrency) < table.shape[0]:
        name = type(pace).__name__
        raise ValueError(f"pace: concurrency = {pace.concurrency} has no formula with {name}; audit it instead")
    if isinstance(pace, Clocked):
        return clocked_arrivals(pi, lam, table, int(pace.every), leaving, exponent)
    deadline = None if pace.deadline is None else int(pace.deadline)
    return round_arrivals(pi, lam, table, float(pace.quorum), deadline, pace.late, leaving, exponent)
