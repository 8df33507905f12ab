"""With how many others a client shares masks, and with whom: all with all in small cohorts, else a random ring."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache

ALL_UP_TO = 30  # clients
_COLLUDING = 0.05  # share of clients on the side of the server
_LOST, _BROKEN = 0.01, 2.0**-40  # chances of a round that is lost, and of one in which somebody is exposed


def threshold_of(members: int) -> int:
    """Shares that are needed: more than half of a group, so that no two halves can be asked apart."""
    return members // 2 + 1


@lru_cache(maxsize=256)
def neighbours_for(clients: int, dropouts: float) -> int:
    """The least even number of neighbours, or all others, where so many of the clients drop out in each exchange.

    By the union bound over clients and tails of draws without replacement: at most one round in a hundred is lost
    since too few of a group are left, and at most one in 2⁴⁰ has a group with a threshold of clients that collude,
    where one in twenty do. Shares get lost in two exchanges, that of uploads and that of unmasking. 26 at 100 clients
    and a tenth that drops out each time, 42 at 1,000.
    """
    gone, colluding = (min(round(clients * share), clients) for share in (2 * dropouts, _COLLUDING))
    if clients <= ALL_UP_TO:
        return max(clients - 1, 0)
    for count in range(2, clients - 1, 2):
        needed = threshold_of(count + 1)
        lost = clients * _tail(clients, gone, count, count + 1 - needed)  # of a client that is gone itself
        broken = clients * _tail(clients, colluding, count, needed)
        if lost <= _LOST and broken <= _BROKEN:
            return count
    return clients - 1


def _tail(population: int, marked: int, drawn: int, least: int) -> float:
    """The chance of at least so many marked ones among those drawn."""
    most = min(drawn, marked)
    ways = sum(math.comb(marked, i) * math.comb(population - marked, drawn - i) for i in range(least, most + 1))
    return ways / math.comb(population, drawn)


def groups_of(names: Sequence[int], neighbours: int, shuffle: random.Random) -> dict[int, frozenset[int]]:
    """Each client with its neighbours: the next ones on both sides of a ring in random order, or everybody."""
    half = (neighbours + 1) // 2
    if 2 * half + 1 >= len(names):
        everybody = frozenset(names)
        return dict.fromkeys(names, everybody)
    order = list(names)
    shuffle.shuffle(order)
    around = range(-half, half + 1)
    return {name: frozenset(order[(place + step) % len(order)] for step in around) for place, name in enumerate(order)}
