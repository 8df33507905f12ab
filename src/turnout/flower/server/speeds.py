"""How long the work of each client takes, learned from its answers, and when to give it up."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

_REMEMBERED = 50  # answers of each client
_FEWEST = 3  # answers before a client has a time-out of its own
_LEAST_FACTOR, _DEVIATIONS = 3.0, 4.0  # of the median, and of the logarithm: whichever is longer
_SHORTEST = 5.0  # seconds: no shorter time-out, for links and processes have hiccups


class Speeds:
    """Seconds from question to answer, by client."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}

    def add(self, client: str, seconds: float) -> None:
        self._seconds.setdefault(client, deque(maxlen=_REMEMBERED)).append(max(seconds, 1e-3))

    def limit(self, client: str, most: float) -> float:
        """Seconds after which an answer is not waited for any more, at most `most`."""
        own = self._seconds.get(client, ())
        if len(own) < _FEWEST:
            return most
        logs = np.log(own)
        median, spread = float(np.median(logs)), float(np.std(logs, ddof=1))
        usual = math.exp(median) * max(_LEAST_FACTOR, math.exp(min(_DEVIATIONS * spread, 50.0)))
        return min(max(usual, _SHORTEST), most)

    def median(self, client: str) -> tuple[float, float, float]:
        """The median of a client's seconds, and both ends of its interval of 95 %; NaN before it has answered.

        The ends are of the rank that no law of durations moves; with fewer than six answers there are none.
        """
        own = np.sort(self._seconds.get(client, ()))
        if not len(own):
            return math.nan, math.nan, math.nan
        rank = math.floor(0.5 * len(own) - 0.98 * math.sqrt(len(own)))
        low, high = (own[rank], own[-1 - rank]) if len(own) >= 6 and rank >= 0 else (0.0, math.inf)
        return float(np.median(own)), float(low), float(high)

    def state(self) -> dict[str, list[float]]:
        return {client: list(own) for client, own in self._seconds.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._seconds = {client: deque(map(float, own), maxlen=_REMEMBERED) for client, own in state.items()}
