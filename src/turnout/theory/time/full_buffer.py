"""A buffer of many clients, without a cap: arrivals wait for each other, so steps are beats that all clients see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr

from turnout.theory.time.arrivals import BufferedArrivals
from turnout.theory.time.buffer import Supply, filling
from turnout.theory.time.clients import TimedClients
from turnout.theory.time.laws import delayed, span_law, work_law
from turnout.theory.time.renewals import after_geometric, counted_steps, from_random_moment, mean_over_steps, powers
from turnout.theory.time.work import times_of

LONGEST = 3000  # ticks from a client's start to its arrival; what lasts longer counts as this
MUCH = 1e-3  # probability of lasting longer, from which on a doubt is noted
TURNS, SETTLED = 80, 1e-6  # of the fixed point: sum of changes of the law
RENEWED = 0.6  # share of the new law in every turn
EXACT_COUNTS = 20_000_000  # clients × buffer × ticks up to which the number that has answered has its exact law


def full_buffer(clients: TimedClients, size: int, exponent: float) -> BufferedArrivals:
    """Beats with independent intervals T of one law, found as a fixed point.

    U(w) = 1 + Σ_i P(T_1 + … + T_i < w) beats pass until an answer that takes w ticks is used. With V_k = wait + work
    + 1 a client is used a_k = 1/(E T · E U(V_k)) times a tick, and within t ticks of a beat it has answered with
    probability p_k(t) = 1 − E U(V_k − t)/E U(V_k). The next beat comes when K of these independent marks are set.
    """
    at_once = _cut(span_law(clients, most=LONGEST))
    longest = min(LONGEST + 1, int(at_once.shape[1] + np.ceil(30 / clients.wake.min())))
    at_once = np.pad(at_once, ((0, 0), (0, longest - at_once.shape[1])))
    later = delayed(at_once, clients.wake)
    doubts = list[str]()
    if 1 - later.sum(axis=1).min() > MUCH or at_once[:, -1].max() > MUCH:
        doubts.append(f"some work takes more than {LONGEST:,} ticks, and was cut")
    later[:, -1] += 1 - later.sum(axis=1)
    beats = _solved(clients, size, at_once, later)
    if not beats.settled:
        doubts.append("the law of the ticks per step did not settle")
    if size == clients.count:
        doubts.append("all clients are waited for: shares are equal, but ticks per step may miss by 20 %")
    times = times_of(clients)
    age, discount = _ages(clients, beats.of_others, times.asks, exponent)
    return BufferedArrivals(
        rates=beats.rates,
        ticks_per_step=float(beats.interval @ np.arange(1, longest + 1)),
        work=times.mean,
        age=age,
        discount=discount,
        doubts=tuple(doubts),
        hazard=np.ones(clients.count),
        buffer_wait=float("nan"),
        at_work=float(beats.rates @ times.places),
        cycle_variance=np.full(clients.count, np.nan),
        work_second=times.second,
    )


def _ages(
    clients: TimedClients, interval: np.ndarray, asks: np.ndarray, exponent: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean age and mean discount: from a beat, from the return after one, or for new tries from a random moment."""
    law = _cut(work_law(clients, most=LONGEST))
    values = np.arange(law.shape[1] + 1.0), (1.0 + np.arange(law.shape[1] + 1)) ** -exponent
    kept = powers(clients.lam, interval.size) @ from_random_moment(interval)
    away = ((1 - clients.pi) * (1 - kept))[:, None]
    first = (1 - away) * interval + away * after_geometric(interval, clients.wake)
    first = first / asks[:, None] + (1 - 1 / asks[:, None]) * from_random_moment(interval)
    age, discount = (mean_over_steps(interval, first, law, value) for value in values)
    return age, discount


@dataclass(frozen=True)
class _Beats:
    interval: np.ndarray  # P(T = 1), P(T = 2), …
    of_others: np.ndarray  # the same while one client works
    rates: np.ndarray
    settled: bool


def _solved(clients: TimedClients, size: int, at_once: np.ndarray, later: np.ndarray) -> _Beats:
    longest, ticks = at_once.shape[1], np.arange(1, at_once.shape[1] + 1)
    memory = powers(clients.lam, longest)
    interval, rates = _first_guess(clients, size, longest), np.zeros(clients.count)
    answered, moved = np.zeros_like(at_once), 1.0
    for _ in range(TURNS):
        # If all are waited for, everybody is used in every beat.
        passed = counted_steps(interval, longest) if size < clients.count else np.ones(longest)
        away = ((1 - clients.pi) * (1 - memory @ from_random_moment(interval)))[:, None]
        lasting = (1 - away) * at_once + away * later  # column w - 1: V = w
        mean = lasting @ passed
        still = fftconvolve(lasting, passed[None, ::-1], axes=1)[:, longest:]  # E U(V - t), t = 1, 2, …
        answered = np.clip(1 - np.pad(still, ((0, 0), (0, 1))) / mean[:, None], 0, 1)
        new = _interval(size, answered)
        rates = 1 / (float(interval @ ticks) * mean)
        moved = float(np.abs(new - interval).sum())
        if moved < SETTLED:
            break
        interval = (1 - RENEWED) * interval + RENEWED * new
    # While a client works the others alone fill the buffer, if they are enough.
    others = answered * (1 - 1 / clients.count) if size < clients.count else np.zeros_like(answered)
    return _Beats(interval, _interval(size, others), rates, moved < SETTLED)


def _interval(size: int, answered: np.ndarray) -> np.ndarray:
    """P(T = 1), P(T = 2), … if clients have answered within 1, 2, … ticks with these probabilities."""
    closed = np.maximum.accumulate(_at_least(size, answered))
    closed[-1] = 1.0
    return np.diff(closed, prepend=0.0)


def _first_guess(clients: TimedClients, size: int, longest: int) -> np.ndarray:
    rate = float((1 / (times_of(clients).span + 1 + 2 * (1 / clients.pi - 1))).sum())
    ticks, _ = filling(size, Supply(rate, float(clients.count)))
    return np.eye(1, longest, min(int(np.ceil(ticks)), longest) - 1)[0]


def _at_least(size: int, chances: np.ndarray) -> np.ndarray:
    """P(at least so many of independent marks), column by column; by the normal law where there are very many."""
    count, columns = chances.shape
    if count * size * columns > EXACT_COUNTS:
        spread = np.sqrt(np.maximum((chances * (1 - chances)).sum(axis=0), 1e-12))
        return np.asarray(ndtr((chances.sum(axis=0) - size + 0.5) / spread))
    numbers = np.zeros((size + 1, columns))  # the last row: so many or more
    numbers[0] = 1.0
    for chance in chances:
        more = numbers[:-1] * chance
        numbers[:-1] -= more
        numbers[1:] += more
    return numbers[-1]


def _cut(law: np.ndarray) -> np.ndarray:
    """What lasts longer is put into the last column."""
    law = law.copy()
    law[:, -1] += np.maximum(1 - law.sum(axis=1), 0.0)
    return law
