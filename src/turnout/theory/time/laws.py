"""The law of W, the ticks from a client's start to its arrival, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from turnout.theory.time.clients import TimedClients
from turnout.theory.time.work import stays

NEGLIGIBLE = 1e-12  # probability that is left over where a law is cut
ROUNDING = 1e-15  # of one column
LONGEST_LAW = 6000  # ticks of work where what lasts longer may be taken at its mean
MOST_ENTRIES = 20_000_000  # of a law, clients × ticks


def work_law(clients: TimedClients, most: int | None = None) -> np.ndarray:
    """P(W = w), w = 0, 1, …, a row per client; of lost tries only the last counts.

    Columns end where next to nothing is left, or after `most`; what is left is not in the table then. Without `most`
    a law that does not end is refused.
    """
    if clients.leaving == "answer":
        return clients.table
    if clients.leaving == "abort":
        arriving = clients.table * stays(clients)
        return arriving / arriving.sum(axis=1, keepdims=True)
    columns = _continued(clients) if clients.leaving == "continue" else _paused(clients)
    return _gathered(columns, clients, most)


def span_law(clients: TimedClients, most: int | None = None) -> np.ndarray:
    """P(ticks from the first start to the arrival = w); lost work starts again as soon as its client is there."""
    return _gathered(_begun_again(clients), clients, most) if clients.leaving == "abort" else work_law(clients, most)


def delayed(law: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The law of G + W, G geometric with this rate: 1, 2, … ticks away before the start; as many columns as given."""
    later = np.zeros_like(law)
    for w in range(1, law.shape[1]):
        later[:, w] = (1 - rate) * later[:, w - 1] + rate * law[:, w - 1]
    return later


def _continued(clients: TimedClients) -> Iterator[np.ndarray]:
    """The first tick from D on in which the client is there."""
    overdue, power = np.zeros(clients.count), np.ones(clients.count)
    for due in _columns(clients.table):
        away = (1 - clients.pi) * (1 - power)
        yield due * (1 - away) + overdue * clients.wake
        overdue = overdue * (1 - clients.wake) + due * away
        power = power * clients.lam


def _paused(clients: TimedClients) -> Iterator[np.ndarray]:
    """The D-th tick with the client after the start."""
    sleep, wake = clients.sleep[:, None], clients.wake[:, None]
    left = clients.table[:, 1:]  # column i: i + 1 ticks of work are left
    away = np.zeros_like(left)
    yield clients.table[:, 0]
    while left.shape[1]:
        there = left * (1 - sleep) + away * wake
        away = left * sleep + away * (1 - wake)
        yield there[:, 0]
        left = np.concatenate([there[:, 1:], np.zeros((clients.count, 1))], axis=1)


def _begun_again(clients: TimedClients) -> Iterator[np.ndarray]:
    sleep, wake, table = clients.sleep[:, None], clients.wake[:, None], clients.table
    left, away = table[:, 1:], np.zeros((clients.count, 1))
    yield table[:, 0]
    nothing = np.zeros((clients.count, 1))
    while True:
        back = away * wake
        there = np.concatenate([left * (1 - sleep), nothing], axis=1) + back * table
        away = away * (1 - wake) + left.sum(axis=1, keepdims=True) * sleep
        yield there[:, 0]
        left = there[:, 1:]


def _columns(table: np.ndarray) -> Iterator[np.ndarray]:
    yield from table.T
    while True:
        yield np.zeros(table.shape[0])


def _gathered(columns: Iterator[np.ndarray], clients: TimedClients, most: int | None) -> np.ndarray:
    """The columns side by side, until next to nothing is left."""
    found: list[np.ndarray] = []
    left = np.ones(clients.count)
    for column in columns:
        if most is None:
            _check_size(len(found) + 1, clients.count)
        found.append(column)
        left = left - column
        if left.max() < NEGLIGIBLE + ROUNDING * len(found) or len(found) == most:
            break
    return np.stack(found, axis=1)


def _check_size(ticks: int, count: int) -> None:
    if ticks * count > MOST_ENTRIES:
        limit = MOST_ENTRIES // count
        raise ValueError(f"some work of {count} clients takes more than {limit:,} ticks: let a tick last longer")
