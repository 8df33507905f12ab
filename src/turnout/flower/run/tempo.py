"""The length of rounds, in usual rounds: availability changes with time, and rounds are not alike."""

from __future__ import annotations

import statistics
from collections import deque

_SHORT = 30.0  # seconds: no fleet changes within less, so shorter rounds count as equal
_REMEMBERED = 101  # rounds
_MOST = 20.0  # usual rounds: after longer ones all memory of a client's state is lost anyway


class Tempo:
    """Times at which rounds have begun."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)
        self.span = 1.0  # from the begin of the last round to the begin of this one, in usual rounds

    def begin(self, now: float) -> None:
        """Note that a round begins now."""
        if self._last is not None:
            length = max(now - self._last, _SHORT)
            self._lengths.append(length)
            self.span = min(length / statistics.median(self._lengths), _MOST)
        self._last = now
