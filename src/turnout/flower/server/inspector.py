"""Protection against clients that lie: bounds that follow the fleet, and a memory of who was beyond them."""

import dataclasses
import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from turnout.flower.server.centre import fill_with_centre
from turnout.flower.server.demands import Demands
from turnout.flower.server.driver import Driver
from turnout.flower.settings import UNGUARDED, Guard
from turnout.flower.wire.layout import Arrays
from turnout.flower.wire.replies import Reply
from turnout.strategies.base import Strategy

log = logging.getLogger("turnout.flower")

_FEWEST = 3  # clients that make a fleet to compare with: of two, nobody can say which one lies
_LEAST_TRUST = 2.0**-6  # what remains of a bound, which is halved for each round in a row in which a client exceeds it
_HIGH = 0.75  # the upper quartile: above it are fewer than the clients that may lie


@dataclass
class Suspicion:
    """How often a client was beyond a bound."""

    dropped: int = 0  # replies
    clipped: int = 0  # updates that were shortened
    doubted: int = 0  # claims of reach or size that were not believed
    dropped_in_a_row: int = 0
    clipped_in_a_row: int = 0
    until: int = 0  # round before which it is not asked


class Recent:
    """One number per client and round, of the last rounds: one column per client."""

    def __init__(self, window: int) -> None:
        self._columns: dict[str, int] = {}
        self._rows = np.full((window, 0), np.nan)
        self._last = -1  # the row of the last round

    def add(self, values: Mapping[str, float]) -> None:
        """Add a round."""
        for name in values:
            self._columns.setdefault(name, len(self._columns))
        fresh = len(self._columns) - self._rows.shape[1]
        self._rows = np.pad(self._rows, ((0, 0), (0, fresh)), constant_values=np.nan)
        self._last = (self._last + 1) % len(self._rows)
        self._rows[self._last] = np.nan
        self._rows[self._last, [self._columns[name] for name in values]] = list(values.values())

    def most(self) -> float | None:
        """The upper quartile over the clients, of the last rounds or of this one if larger; None for too few."""
        return max(self._quartiles(), default=None)

    def least(self) -> float | None:
        """The lower quartile, likewise the smaller one."""
        return min((-bound for bound in self._quartiles(-1.0)), default=None)

    def _quartiles(self, sign: float = 1.0) -> list[float]:
        rows = np.sort(sign * self._rows, axis=0)  # NaN last
        counts = np.isfinite(rows).sum(axis=0)
        medians = np.take_along_axis(rows, np.maximum(counts - 1, 0)[None] // 2, axis=0)[0][counts > 0]
        return [high_quartile(values) for values in (medians, sign * self._now()) if len(values) >= _FEWEST]

    def _now(self) -> np.ndarray:
        row = self._rows[self._last] if self._last >= 0 else self._rows[:0].ravel()
        return row[np.isfinite(row)]

    def state(self) -> tuple[dict[str, Any], np.ndarray]:
        return {"names": list(self._columns), "last": self._last}, self._rows

    def restore(self, plain: Mapping[str, Any], rows: np.ndarray) -> None:
        if len(rows) == len(self._rows):  # else another window is wanted now, which fills again
            self._columns = {name: column for column, name in enumerate(plain["names"])}
            self._rows, self._last = np.array(rows), int(plain["last"])


def high_quartile(values: np.ndarray) -> float:
    """The upper quartile, rounded down to one of the values: the largest of three or four is never the bound."""
    return float(np.sort(values)[math.floor(_HIGH * (len(values) - 1))])


class Inspector:
    """A guard at work in one training: what clients sent lately, and what they are suspected of."""

    def __init__(self, guard: Guard | None, strategy: Strategy) -> None:
        self.guard = UNGUARDED if guard is None else guard
        self._demands = Demands.of(strategy)
        # Server and client would not agree on an update that was shortened, nor would the two vectors of an answer.
        if self._demands.memory or self._demands.second:
            self.guard = replace(self.guard, clip=None)
        _check_robust(self.guard, self._demands)
        self.suspects: dict[str, Suspicion] = {}  # by client; those never beyond a bound are not in it
        self._rates: dict[str, float] = {}
        self._longest: dict[str, float] = {}  # of the updates of this round that are too long
        self._claims: dict[str, float] = {}  # sizes as they were claimed, by client
        self._recent = {name: Recent(self.guard.window) for name in ("length", "reach", "pace", "size")}

    @property
    def rolls_back(self) -> bool:
        """Whether the server goes back to the last good model where an evaluation collapses."""
        wanted = self.guard.rollback
        return not self._demands.models if wanted is None else wanted

    def rests(self, name: str, t: int) -> bool:
        """Whether a client is not asked in round t, since its last replies were all dropped."""
        return name in self.suspects and self.suspects[name].until > t

    def bound_sizes(self, driver: Driver) -> None:
        """Let no client of a fleet weighed by size count far more than the others, whatever size it has claimed."""
        claims = {name: driver.places.worth(name) for name in driver.directory.names}
        self._claims = {**claims, **self._claims}
        if self.guard.size is None or len(claims) < _FEWEST:
            return
        most = self.guard.size * high_quartile(np.array([self._claims[name] for name in claims]))
        bounded = {name: min(self._claims[name], most) for name in claims}
        for name in claims:
            if bounded[name] < self._claims[name] and bounded[name] != claims[name]:
                self._suspect(name).doubted += 1
                log.warning("%s claims %.4g samples; %.4g are believed", name, self._claims[name], bounded[name])
        driver.weigh(bounded)

    def look(self, norms: Mapping[str, float], rates: Mapping[str, float]) -> dict[str, float]:
        """Take in the lengths of a round's updates, arrived or only claimed; returns them, cut to the bound.

        Lengths are compared per step length, since a strategy may give every client its own.
        """
        self._rates = {name: rate if rate > 0 else 1.0 for name, rate in rates.items()}
        self._recent["length"].add({name: norm / self._rates[name] for name, norm in norms.items()})
        bound = self._most("length", self.guard.clip)
        self._longest = {}
        for name, norm in norms.items():
            if norm > bound * self._rates[name]:
                suspicion = self._suspect(name)
                trust = max(0.5**suspicion.clipped_in_a_row, _LEAST_TRUST)
                self._longest[name] = bound * self._rates[name] * trust
                suspicion.clipped_in_a_row += 1
            elif name in self.suspects:
                self.suspects[name].clipped_in_a_row = 0
        return {name: self._longest.get(name, norm) for name, norm in norms.items()}

    def correct(self, t: int, replies: Mapping[str, Reply]) -> dict[str, Reply]:
        """The replies of round t within the bounds; updates are changed in place."""
        shortened = {name: self._shorten(t, name, reply) for name, reply in replies.items()}
        corrected = self._correct_claims(t, shortened)
        if self.guard.robust is not None:
            fill_with_centre(
                [reply.update for reply in corrected.values()],
                [self._rates[name] for name in corrected],
                self.guard.robust,
            )
            reach = float(np.median([reply.reach for reply in corrected.values()])) if corrected else 1.0
            corrected = {name: replace(reply, reach=reach) for name, reply in corrected.items()}
        return corrected

    def note(self, t: int, good: Collection[str], dropped: Collection[str]) -> None:
        """Remember whose replies of round t were dropped."""
        for name in good:
            if name in self.suspects:
                self.suspects[name].dropped_in_a_row = 0
        # Where all are asked, one that is dropped takes nobody's place.
        strikes = math.inf if self._demands.everyone or self.guard.strikes is None else self.guard.strikes
        for name in dropped:
            suspicion = self._suspect(name)
            suspicion.dropped, suspicion.dropped_in_a_row = suspicion.dropped + 1, suspicion.dropped_in_a_row + 1
            if suspicion.dropped_in_a_row >= strikes:
                suspicion.until = t + 1 + self.guard.rest
                log.warning("%s is not asked for %d rounds: its replies are dropped", name, self.guard.rest)

    def _shorten(self, t: int, name: str, reply: Reply) -> Reply:
        most = self._longest.get(name)
        if most is None:
            return reply
        self._suspect(name).clipped += 1
        log.warning("round %d: the update of %s is shortened from %.4g to %.4g", t, name, reply.norm, most)
        for part in reply.update.values():
            part *= np.float32(most / reply.norm)
        return replace(reply, norm=most)

    def _correct_claims(self, t: int, everyone: Mapping[str, Reply]) -> dict[str, Reply]:
        replies = {name: reply for name, reply in everyone.items() if reply.reach > 0}  # no work claims nothing
        self._recent["reach"].add({name: reply.reach for name, reply in replies.items()})
        self._recent["pace"].add({name: self._pace(name, reply) for name, reply in replies.items()})
        self._recent["size"].add({name: float(reply.size) for name, reply in replies.items() if reply.size > 0})
        low, high, pace = self._recent["reach"].least(), self._recent["reach"].most(), self._recent["pace"].most()
        usual = None if low is None or high is None or not pace else (low, high, pace)
        largest = self._most("size", self.guard.size)
        plausible = dict(everyone)
        for name, reply in replies.items():
            reach, size = self._plausible_reach(name, reply, usual), min(reply.size, largest)
            if (reach, size) != (reply.reach, reply.size):
                self._suspect(name).doubted += 1
                claims = (t, name, reply.reach, reply.size, reach, size)
                log.warning("round %d: %s claims a reach of %.4g and %d samples; %.4g and %d are believed", *claims)
            plausible[name] = replace(reply, reach=reach, size=int(size))
        return plausible

    def _plausible_reach(self, name: str, reply: Reply, usual: tuple[float, float, float] | None) -> float:
        """The reach as claimed; if it is far from the fleet's, the reach that the fleet needs for such an update."""
        factor, own = self.guard.reach, self._pace(name, reply)
        if factor is None or usual is None:
            return reply.reach
        low, high, pace = usual
        if low / factor <= reply.reach <= high * factor and own <= factor * pace:
            return reply.reach
        return min(max(reply.reach * own / pace, low), high)

    def _pace(self, name: str, reply: Reply) -> float:
        """Length of an update per step length and per unit of the work claimed for it."""
        return reply.norm / self._rates[name] / reply.reach

    def _most(self, what: str, factor: float | None) -> float:
        most = self._recent[what].most()
        # Where most clients stand still, everyone who moves is beyond any factor.
        return factor * most if factor is not None and most else math.inf

    def _suspect(self, name: str) -> Suspicion:
        return self.suspects.setdefault(name, Suspicion())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The contents as JSON and arrays."""
        recent = {what: numbers.state() for what, numbers in self._recent.items()}
        plain = {
            "suspects": {name: dataclasses.asdict(suspicion) for name, suspicion in self.suspects.items()},
            "claims": self._claims,
            "recent": {what: description for what, (description, _) in recent.items()},
        }
        return plain, {what: rows for what, (_, rows) in recent.items()}

    def restore(self, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a former `state`, or from nothing, which older checkpoints have."""
        self.suspects = {name: Suspicion(**counts) for name, counts in plain.get("suspects", {}).items()}
        self._claims = dict(plain.get("claims", {}))
        for what, description in plain.get("recent", {}).items():
            self._recent[what].restore(description, arrays[what])


def _check_robust(guard: Guard, demands: Demands) -> None:
    """Refuse a robust centre where a strategy needs every client's own update."""
    why = "weighs every update by its own length" if demands.lengths else None
    why = "has clients send a second vector" if demands.second else why
    why = "remembers every client's own update" if demands.models or demands.memory else why
    if guard.robust is not None and why is not None:
        raise ValueError(f"{demands.name} {why}, for which no centre can stand: robust={guard.robust!r} is impossible")
