"""Buffered(K, C): step as soon as K updates have come, with at most C clients at work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from turnout.declarations import Count, NotNegative, checked
from turnout.declarations.arrays import Values, at_least, check_nonnegative, positive
from turnout.theory.time.arrivals import BufferedArrivals
from turnout.theory.time.buffer import Supply, filling, steps_in_ticks
from turnout.theory.time.clients import Durations, Leaving, Shared, TimedClients, read_clients
from turnout.theory.time.full_buffer import full_buffer
from turnout.theory.time.laws import LONGEST_LAW, work_law
from turnout.theory.time.played import buffered_played
from turnout.theory.time.work import WorkTimes, times_of

SMALL_BUFFER = 1 / 6  # of the clients: a larger one makes clients wait for each other
LARGEST = 40.0  # -log(1 - hazard) of a client that is asked at once
BISECTIONS = 50
FEW = 10  # clients, who notice each other under a cap
OFTEN_THERE = 0.85  # clients that are there so often, with fixed durations, may stay in step
AROUND = np.linspace(-0.7, 5.0, 36)  # log of a client's hazard beside the common one


@checked
def buffered_arrivals(
    pi: Shared,
    lam: Shared,
    durations: Durations,
    size: Count = 10,
    concurrency: Count | None = None,
    leaving: Leaving = "continue",
    odds: Values | None = None,
    exponent: NotNegative = 0.0,
) -> BufferedArrivals:
    """Arrivals at a server that steps as soon as `size` updates have come, and keeps up to `concurrency` at work.

    A client's cycle is its work, the wait in the buffer b, its return, and the wait to be asked:

        1/a_k = span_k + 1 + b + Q_k(b + 1)/u_k + asks_k (1 − h_k)/(h_k π_k),

    where the hazard h_k is the probability per tick that it is asked while it is idle and there: 1 without a cap. With
    one, Little's law gives the common hazard: Σ a_k places_k is the mean of min(X, C), X those who work or wait for a
    place, about normal. A client waits only while the *others* fill the places, so it has the hazard of a fleet without
    it. Where buffers hold more than a sixth of the clients, arrivals wait for each other and another equation is solved
    (without a cap). If nobody ever leaves, durations are fixed and there is no cap, nothing is random and it is played.

    Measured against simulation: docs/theory/time.md.

    `pi`, `lam`, `durations` and `leaving` are those of `work_times`. `size` is K, `concurrency` C, everyone if not
    given. `odds` are those of being asked among clients that are idle and there, where a cap makes a choice; equal if
    not given. `exponent` is that of the discount s(age) = (1 + age)^-exponent; FedBuff's is 1/2.
    """
    clients = read_clients(pi, lam, durations, leaving)
    cap = clients.count if concurrency is None else min(at_least("concurrency", concurrency, 1), clients.count)
    check_nonnegative(exponent=exponent)
    relative = np.ones(clients.count) if odds is None else positive("odds", odds, clients.count)
    return _solved(clients, at_least("size", size, 1), cap, relative / relative.mean(), exponent)


def _solved(clients: TimedClients, size: int, cap: int, odds: np.ndarray, exponent: float) -> BufferedArrivals:
    count = clients.count
    if size > count:
        raise ValueError(f"size = {size}: a buffer of {count} clients is never fuller than {count}")
    if cap == count:
        if clients.always_there and clients.fixed is not None:
            return buffered_played(clients.fixed, size, exponent)
        if size > 1 and size > SMALL_BUFFER * count:
            clients.refuse_answers("where buffers hold more than a sixth of the clients")
            return full_buffer(clients, size, exponent)
    return _small_buffer(_Capped(clients, times_of(clients), size, cap, odds), exponent)


@dataclass(frozen=True)
class _Flow:
    """What hazards lead to."""

    hazard: np.ndarray
    rates: np.ndarray
    buffer_wait: float
    ticks_per_step: float
    sources: float
    at_work: np.ndarray  # share of ticks
    engaged: np.ndarray  # share of ticks at work, or there and waiting to be asked


@dataclass(frozen=True)
class _Capped:
    clients: TimedClients
    times: WorkTimes
    size: int
    cap: int
    odds: np.ndarray

    def flow(self, hazard: np.ndarray) -> _Flow:
        """The rates for given hazards; the wait in the buffer is a fixed point inside."""
        clients, times = self.clients, self.times
        unasked = times.asks * (1 - hazard) / hazard
        wait, ticks, sources, rates = 0.0, np.inf, 1.0, np.zeros(clients.count)
        for _ in range(200):
            rates = 1 / (
                times.span + 1 + wait + clients.away_after_answer(wait + 1) / clients.wake + unasked / clients.pi
            )
            total = float(rates.sum())
            full = self.cap < clients.count and float(rates @ times.places) > 0.9 * self.cap
            sources = float(self.cap) if full else min(total**2 / float(rates @ rates), float(clients.count))
            ticks, new = filling(self.size, Supply(total, max(sources, total)))
            near = abs(new - wait) < 1e-9 * (1 + wait)
            wait = (wait + new) / 2 if new > wait + 50 else new  # from far away, in small steps
            if near:
                break
        working = rates * times.places
        return _Flow(hazard, rates, wait, ticks, sources, working, np.clip(working + rates * unasked, 0, 1))

    def flow_at(self, intensity: float, relative: np.ndarray | float = 1.0) -> _Flow:
        return self.flow(-np.expm1(-intensity * relative * self.odds))

    def excess(self, working: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Mean number at work less E min(X, C), X normal; it grows with the hazard."""
        spread = np.sqrt(np.maximum(variance, 1e-12))
        z = (mean - self.cap) / spread
        overflow = (mean - self.cap) * ndtr(z) + spread * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        return working - mean + overflow

    def intensity(self, relative: np.ndarray | float = 1.0) -> float:
        """The common factor of the hazards for which Little's law holds."""
        low, high = 1e-9, LARGEST / float(np.min(relative * self.odds))
        for _ in range(BISECTIONS):
            middle = float(np.sqrt(low * high))
            flow = self.flow_at(middle, relative)
            there = flow.engaged
            sums = [part.sum(keepdims=True) for part in (flow.at_work, there, there * (1 - there))]
            missing = bool(self.excess(*sums)[0] < 0)
            low, high = (middle, high) if missing else (low, middle)
        return float(np.sqrt(low * high))

    def beside_the_others(self, common: float) -> np.ndarray:
        """Each client's hazard, relative to the common one, if the places are filled by the others alone."""
        flows = [self.flow_at(common * float(np.exp(x))) for x in AROUND]
        working, there = np.stack([f.at_work for f in flows]), np.stack([f.engaged for f in flows])
        spread = there * (1 - there)
        others = [part.sum(axis=1, keepdims=True) - part for part in (working, there, spread)]
        excess, one = self.excess(*others), np.arange(self.clients.count)
        reached = excess >= -1e-12
        upper = np.where(reached.any(axis=0), np.maximum(reached.argmax(axis=0), 1), AROUND.size - 1)
        below, above = excess[upper - 1, one], excess[upper, one]
        part = np.clip(-below / np.maximum(above - below, 1e-300), 0, 1)
        part = np.where(reached.any(axis=0), part, 1.0)
        return np.exp(AROUND[upper - 1] + part * (AROUND[1] - AROUND[0]))

    def solved(self) -> _Flow:
        if self.cap == self.clients.count:
            return self.flow(np.ones(self.clients.count))
        relative = self.beside_the_others(self.intensity())
        return self.flow_at(self.intensity(relative), relative)


def _small_buffer(capped: _Capped, exponent: float) -> BufferedArrivals:
    flow, times = capped.solved(), capped.times
    age, discount = _ages(capped, flow, exponent)
    variance = times.span_second - times.span**2 + _variance_of_wait(capped.clients, flow)
    return BufferedArrivals(
        rates=flow.rates,
        ticks_per_step=flow.ticks_per_step,
        work=times.mean,
        age=age,
        discount=discount,
        doubts=_doubts(capped),
        hazard=flow.hazard,
        buffer_wait=flow.buffer_wait,
        at_work=float(flow.at_work.sum()),
        cycle_variance=variance,
        work_second=times.second,
    )


def _ages(capped: _Capped, flow: _Flow, exponent: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean age and mean discount: steps of the others while a client works; none falls into the buffer's wait."""
    clients, total = capped.clients, float(flow.rates.sum())
    law = work_law(clients, most=LONGEST_LAW)
    longest = law.shape[1] - 1
    others = Supply(total, max(flow.sources, total)).without_one()
    seen = steps_in_ticks(capped.size, others, exponent, longest)
    # A client that is asked at once starts just after a step, all others at a random moment; so does work begun anew.
    at_once = flow.hazard * (1 - clients.away_after_answer(flow.buffer_wait + 1))
    starts = np.stack([at_once, 1 - at_once]) if clients.leaving != "abort" else np.eye(2)[1][:, None]
    # Work beyond the end of the law is taken at its mean.
    rest = np.maximum(1 - law.sum(axis=1), 0.0)
    beyond = np.maximum(capped.times.mean - law @ np.arange(longest + 1) - rest * longest, 0.0)
    excess = np.divide(beyond, rest, out=np.zeros_like(rest), where=rest > 0)
    farthest = seen.steps[:, -1:] + excess * others.rate / capped.size
    age = seen.steps @ law.T + rest * farthest
    discount = seen.discount @ law.T + rest * (1 + farthest) ** -exponent
    return (starts * age).sum(axis=0), (starts * discount).sum(axis=0)


def _variance_of_wait(clients: TimedClients, flow: _Flow) -> np.ndarray:
    """Of the ticks from the first idle one until a client is asked: there or away are two states of a chain."""
    count, h = clients.count, flow.hazard
    away = clients.away_after_answer(flow.buffer_wait + 1)
    unasked = np.empty((count, 2, 2))
    unasked[:, 0, 0], unasked[:, 0, 1] = (1 - h) * (1 - clients.sleep), (1 - h) * clients.sleep
    unasked[:, 1, 0], unasked[:, 1, 1] = clients.wake, 1 - clients.wake
    start = np.stack([1 - away, away], axis=1)[:, None, :]
    visits = np.linalg.solve(np.eye(2) - unasked, np.ones((count, 2, 1)))
    twice = np.linalg.solve(np.eye(2) - unasked, visits)
    mean = (start @ (unasked @ visits))[:, 0, 0]
    second = (start @ (2 * unasked @ twice - unasked @ visits))[:, 0, 0]
    return second - mean**2


def _doubts(capped: _Capped) -> tuple[str, ...]:
    clients, found = capped.clients, list[str]()
    if capped.cap < clients.count and capped.size > 1 and capped.size > SMALL_BUFFER * clients.count:
        found.append("the buffer holds more than a sixth of the clients, and there is a cap: shares may miss by 7 %")
    if capped.cap < clients.count < FEW:
        found.append(f"there is a cap and there are fewer than {FEW} clients: shares may miss by 8 %")
    hardly_leave = float((clients.pi > OFTEN_THERE).mean()) > 0.5
    if capped.cap == clients.count and clients.fixed is not None and hardly_leave:
        found.append("clients with fixed durations that hardly leave stay in step: ticks per step may miss by 20 %")
    return tuple(found)
