"""Clocked(Δ): step every Δ ticks with what has come. Clients do not meet, so all of it is exact."""

from __future__ import annotations

import numpy as np

from turnout.declarations import Count, NotNegative, checked
from turnout.declarations.arrays import at_least, check_nonnegative
from turnout.theory.time.arrivals import UsedUpdates
from turnout.theory.time.clients import Durations, Leaving, Shared, TimedClients, read_clients
from turnout.theory.time.laws import LONGEST_LAW, work_law
from turnout.theory.time.work import lost_at, stays, times_of


@checked
def clocked_arrivals(
    pi: Shared,
    lam: Shared,
    durations: Durations,
    every: Count,
    leaving: Leaving = "continue",
    exponent: NotNegative = 0.0,
) -> UsedUpdates:
    """Arrivals at a server that steps every so many ticks, whoever is idle and there being at work.

    A used update takes I_k = 1 + ⌊(G + W_k)/Δ⌋ beats. G, the wait from the first tick after a beat, is 0 if the client
    is there, else geometric with rate (1 − λ)π. Whether it is there is a chain of two states from use to use, since it
    was there Δ − (G + W) mod Δ ticks earlier. A client that is always there has I_k = ⌈(d_k + 1)/Δ⌉.

    `pi`, `lam`, `durations` and `leaving` are those of `work_times`. `every` is Δ, and `exponent` that of the discount
    s(age) = (1 + age)^-exponent.
    """
    clients = read_clients(pi, lam, durations, leaving)
    clients.refuse_answers("where a clock decides")
    every = at_least("every", every, 1)
    check_nonnegative(exponent=exponent)
    times = times_of(clients)
    away = _geometric(clients, every)
    job, span = _phases(clients, every, away)
    at_once, later = span, span * away
    late = _starts_late(clients, _law(at_once), _law(later))
    from_beat = late / clients.wake + times.span  # mean of G + W
    phase = (1 - late[:, None]) * at_once + late[:, None] * later
    beats = 1 + (from_beat - _mean(phase)) / every
    start = _phase_of_start(clients, late, away)
    begun = _mean(start)
    age = (begun + times.mean - _mean(start * job)) / every
    discount = np.ones(clients.count) if exponent == 0 else _discount(clients, _law(start), times.mean, exponent)
    return UsedUpdates(1 / (beats * every), float(every), times.mean, age, discount, ())


# Only ticks modulo Δ matter. A row per client holds the Fourier transform of such a law: sums of ticks are products.


def _transform(chances: np.ndarray, every: int) -> np.ndarray:
    """Of P(0 ticks), P(1 tick), …."""
    folded = np.zeros((every, chances.shape[0]))
    np.add.at(folded, np.arange(chances.shape[1]) % every, chances.T)
    return np.fft.fft(folded.T)


def _law(transform: np.ndarray) -> np.ndarray:
    return np.maximum(np.fft.ifft(transform).real, 0.0)


def _mean(transform: np.ndarray) -> np.ndarray:
    """The mean tick of the beat."""
    return _law(transform) @ np.arange(transform.shape[1])


def _geometric(clients: TimedClients, every: int) -> np.ndarray:
    """Of G, 1, 2, … ticks away."""
    wake = clients.wake[:, None]
    chances = wake * (1 - wake) ** np.arange(every)  # of 1, …, Δ, up to a factor
    return np.fft.fft(np.roll(chances / chances.sum(axis=1, keepdims=True), 1, axis=1))


def _phases(clients: TimedClients, every: int, away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the ticks from start to arrival, counted from the last start and from the first."""
    table, sleep = clients.table, clients.sleep[:, None]
    if clients.leaving == "continue":
        missing = table * clients.away_after(table.shape[1])
        work = _transform(table - missing, every) + _transform(missing, every) * away
        return work, work
    if clients.leaving == "pause":
        again = np.exp(-2j * np.pi * np.arange(every) / every) * ((1 - sleep) + sleep * away)  # to the next tick there
        work = np.zeros_like(again)
        for chance in table.T[::-1]:
            work = work * again + chance[:, None]
        return work, work
    arriving = table * stays(clients)
    done = _transform(arriving, every)
    return done / arriving.sum(axis=1, keepdims=True), done / (1 - _transform(lost_at(clients), every) * away)


def _starts_late(clients: TimedClients, at_once: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Long-run share of the used updates before whose start the client was away in the first tick after a beat."""
    until = at_once.shape[1] - np.arange(at_once.shape[1])
    missing = (1 - clients.pi[:, None]) * (1 - clients.lam[:, None] ** until)
    after_early, after_late = ((law * missing).sum(axis=1) for law in (at_once, later))
    return after_early / np.maximum(1 - after_late + after_early, 1e-300)


def _phase_of_start(clients: TimedClients, late: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Of the ticks from a beat to the start of the work that arrives."""
    first = (1 - late[:, None]) + late[:, None] * away
    if clients.leaving != "abort":
        return first
    lost = lost_at(clients)
    success = (clients.table * stays(clients)).sum(axis=1, keepdims=True)
    return first * success / (1 - _transform(lost, away.shape[1]) * away)


def _discount(clients: TimedClients, phase: np.ndarray, mean: np.ndarray, exponent: float) -> np.ndarray:
    """E s(age); the little that lasts beyond the end of the law is taken at its mean."""
    every, law = phase.shape[1], work_law(clients, most=LONGEST_LAW)
    ticks = np.arange(law.shape[1])
    by_start = [law @ (1.0 + (first + ticks) // every) ** -exponent for first in range(every)]
    rest = np.maximum(1 - law.sum(axis=1), 0.0)
    beyond = np.divide(mean - law @ ticks, rest, out=np.zeros_like(rest), where=rest > 0)
    return (phase * np.stack(by_start, axis=1)).sum(axis=1) + rest * (1 + np.maximum(beyond, 0) / every) ** -exponent
