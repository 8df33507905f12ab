"""How long an update takes: W, the ticks from a client's start to its arrival, with its absences. All is exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.declarations import checked
from turnout.declarations.arrays import refuse
from turnout.theory.time.clients import Durations, Leaving, Shared, TimedClients, read_clients

LEAST_SUCCESS = 1e-30  # of a try whose client must not leave: below it the client never comes


@dataclass(frozen=True)
class WorkTimes:
    """Means for an update that arrives, one number per client, in ticks; what one choice of the server costs."""

    mean: np.ndarray  # E W, from the start of the work that arrives
    second: np.ndarray  # E W²
    span: np.ndarray  # from the first start; waits to be asked again are left out
    span_second: np.ndarray
    places: np.ndarray  # spent in one of the server's places, with work that was lost
    asks: np.ndarray  # starts, 1 unless work is lost


@checked
def work_times(pi: Shared, lam: Shared, durations: Durations, leaving: Leaving = "continue") -> WorkTimes:
    """How long clients work, in closed form.

    With u = (1 − λ)π, s = (1 − λ)(1 − π) and Q(g) = (1 − π)(1 − λ^g): work that continues takes E W = E D + E Q(D)/u,
    as a client that is away at the end must return first. Work that pauses takes E D/π, by Kac's formula. Work that is
    lost when its client leaves succeeds with q = E (1 − s)^D; a try takes (1 − q)/s ticks, and 1/u more if it fails.

    Args:
        pi: Stationary rates, of being available in a tick; one for all or one per client.
        lam: Correlations from tick to tick, in the range that the rate allows.
        durations: Ticks of work beyond the first: a whole number per client, or P(D = 0), P(D = 1), … in a row per
            client.
        leaving: What becomes of the work of a client that leaves: it goes on, pauses, or is lost ("abort"); or it goes
            on and is answered from anywhere ("answer").

    """
    return times_of(read_clients(pi, lam, durations, leaving))


def times_of(clients: TimedClients) -> WorkTimes:
    ticks = np.arange(clients.table.shape[1])
    first, second = clients.table @ ticks, clients.table @ ticks**2
    wake, once = clients.wake, np.ones(clients.count)
    if clients.leaving == "answer":
        return WorkTimes(first, second, first, second, first + 1, once)
    if clients.leaving == "continue":
        missing = clients.table * clients.away_after(ticks.size)  # P(D = j, and away when it ends)
        away, longer = missing.sum(axis=1), (missing @ ticks) / wake
        mean, square = first + away / wake, second + 2 * longer + away * (2 - wake) / wake**2
        return WorkTimes(mean, square, mean, square, mean + 1, once)
    if clients.leaving == "pause":
        # A tick of work ends one tick later, or after a time away: its second moment is that of a return.
        again = (1 - clients.sleep) + clients.sleep * (1 + 2 / wake + (2 - wake) / wake**2)
        mean = first / clients.pi
        square = first * (again - 1 / clients.pi**2) + second / clients.pi**2
        return WorkTimes(mean, square, mean, square, mean + 1, once)
    return _times_of_tries(clients)


def _times_of_tries(clients: TimedClients) -> WorkTimes:
    """Work is lost when its client leaves, and begun anew: a geometric number of failures, then a success."""
    ticks = np.arange(clients.table.shape[1])
    arriving = clients.table * stays(clients)
    success = arriving.sum(axis=1)
    hopeless = success < LEAST_SUCCESS
    refuse(hopeless, lambda k: f"client {k} ends its work with probability {success[k]:.1g}", "must have a chance")
    mean, second = (arriving @ ticks) / success, (arriving @ ticks**2) / success
    lost = lost_at(clients)
    failure = np.maximum(lost.sum(axis=1), 1e-300)
    until, until_second = (lost @ ticks) / failure, (lost @ ticks**2) / failure
    failures = (1 - success) / success
    back = until + 1 / clients.wake
    variance = (second - mean**2) + failures * (until_second - until**2 + (1 - clients.wake) / clients.wake**2)
    variance += failures / success * back**2
    span = mean + failures * back
    places = mean + 1 + failures * (until + 1)
    return WorkTimes(mean, second, span, span**2 + variance, places, 1 / success)


def stays(clients: TimedClients) -> np.ndarray:
    """P(there in all of the next j ticks), j along the rows."""
    return (1 - clients.sleep[:, None]) ** np.arange(clients.table.shape[1])


def lost_at(clients: TimedClients) -> np.ndarray:
    """P(work is lost after j ticks) = s (1 - s)^(j-1) P(D >= j)."""
    lost = np.zeros_like(clients.table)
    longer = clients.table[:, ::-1].cumsum(axis=1)[:, ::-1]
    lost[:, 1:] = clients.sleep[:, None] * stays(clients)[:, :-1] * longer[:, 1:]
    return lost
