"""Whom to ask, so that clients of every speed and availability come as often as the target says."""

from __future__ import annotations

import numpy as np

from turnout.declarations import Count, checked
from turnout.declarations.arrays import Values, at_least, law, positive, refuse
from turnout.theory.time.buffer import Supply, filling
from turnout.theory.time.clients import Durations, Leaving, Shared, TimedClients, read_clients
from turnout.theory.time.work import WorkTimes, times_of

CERTAIN = 1 - 1e-9  # a hazard above it is as good as being asked at once
TURNS = 200


@checked
def most_at_work_by_choice(
    pi: Shared, lam: Shared, durations: Durations, target: Values, size: Count = 1, leaving: Leaving = "continue"
) -> float:
    """C*, the largest number at work for which choice alone can make updates come in proportion to the target.

        C* = Σ α_k places_k / max_k (α_k cycle_k),

    with the cycle of a client that is asked at once. With more at work the slowest client for its target cannot come
    often enough, whoever is chosen. For equal targets of clients that are always there: N mean(d + 1)/max(d + 1).

    `pi`, `lam`, `durations` and `leaving` are those of `work_times`. `target` says how much each client should count,
    and `size` is K, the updates that the server waits for.
    """
    clients = read_clients(pi, lam, durations, leaving)
    clients.refuse_answers("for choices")
    alpha, size = _check(clients, target, size)
    return _most(clients, times_of(clients), alpha, size)


@checked
def fair_odds(
    pi: Shared,
    lam: Shared,
    durations: Durations,
    target: Values,
    concurrency: Count,
    size: Count = 1,
    leaving: Leaving = "continue",
) -> np.ndarray:
    """Odds of being asked, among those that are idle and there, with which updates come in proportion to the target.

    Rates c α_k keep C clients at work if c = C/Σ α_k places_k. What is left of a cycle 1/(c α_k), after work, buffer
    and return, is the wait V_k to be asked: the hazard is 1/(1 + π_k V_k) and the odds −log(1 − hazard), with mean 1. A
    ValueError if C is more than `most_at_work_by_choice`. The buffer is one of at most a sixth of the clients.

    `pi`, `lam`, `durations` and `leaving` are those of `work_times`. `target` says how much each client should count,
    `concurrency` is C, and `size` is K, the updates that the server waits for.
    """
    clients = read_clients(pi, lam, durations, leaving)
    clients.refuse_answers("for choices")
    alpha, size = _check(clients, target, size)
    cap, times = at_least("concurrency", concurrency, 1), times_of(clients)
    rate = cap / float(alpha @ times.places)
    _, buffered = filling(size, Supply(rate, max(float(cap), rate)))
    wait = 1 / (rate * alpha) - _at_once(clients, times, buffered)
    if (wait < 0).any():
        most = _most(clients, times, alpha, size)
        raise ValueError(
            f"concurrency = {cap}: {int((wait < 0).sum())} clients cannot come often enough, whoever is asked; "
            f"choice alone is right with at most {most:.4g} at work"
        )
    hazard = 1 / (1 + clients.pi * wait / times.asks)
    odds = -np.log1p(-np.minimum(hazard, CERTAIN))
    return odds / odds.mean()


@checked
def queued_rates(odds: Values, durations: Values, tasks: Count) -> tuple[np.ndarray, np.ndarray]:
    """Updates per tick of each client, and mean number of tasks at it, if tasks queue at clients.

    So many tasks are always out; each goes next to client k with probability p_k and waits there (Generalized
    AsyncSGD). The shares of updates are p_k exactly, for every law of the durations. How many come in all is by mean
    value analysis, which is exact for exponential times and up to 13 % too low for fixed ones.

    Args:
        odds: p_k, up to a common factor.
        durations: Mean ticks that a task takes at the client, the first included.
        tasks: Number of tasks that are out.

    """
    chance = law("odds", odds)
    service = positive("durations", durations, chance.size)
    tasks = at_least("tasks", tasks, 1)
    queue, rates = np.zeros(chance.size), np.zeros(chance.size)
    for number in range(1, tasks + 1):
        stay = service * (1 + queue)
        rates = number / float(chance @ stay) * chance
        queue = rates * stay
    return rates, queue


def _at_once(clients: TimedClients, times: WorkTimes, buffered: float) -> np.ndarray:
    """Mean ticks from use to use, if a client is asked as soon as it is idle and there."""
    return times.span + 1 + buffered + clients.away(buffered + 1) / clients.wake


def _most(clients: TimedClients, times: WorkTimes, alpha: np.ndarray, size: int) -> float:
    buffered, rate = 0.0, 0.0
    for _ in range(TURNS):
        rate = 1 / float((alpha * _at_once(clients, times, buffered)).max())
        sources = max(rate * float(alpha @ times.places), rate)
        _, new = filling(size, Supply(rate, sources))
        if abs(new - buffered) < 1e-9 * (1 + buffered):
            break
        buffered = new
    return rate * float(alpha @ times.places)


def _check(clients: TimedClients, target: Values, size: int) -> tuple[np.ndarray, int]:
    alpha = law("target", target, clients.count)
    rule = "choice is about clients that should count"
    refuse(alpha == 0, lambda k: f"client {k} has target = 0", rule)
    size = at_least("size", size, 1)
    if size > clients.count / 6 and size > 1:
        raise ValueError(f"size = {size}: with {clients.count} clients at most {max(clients.count // 6, 1)}, a sixth")
    return alpha, size
