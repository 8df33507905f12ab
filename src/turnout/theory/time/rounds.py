"""Rounds in time: all that are idle and there are asked; a quorum or a deadline closes; the late drop out or count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.signal import fftconvolve

from turnout.declarations import Count, NotNegative, Share, checked
from turnout.declarations.arrays import at_least, check_nonnegative
from turnout.theory.bias import normalised_round_weights
from turnout.theory.time.arrivals import RoundArrivals
from turnout.theory.time.clients import Durations, Leaving, Shared, TimedClients, read_clients
from turnout.theory.time.closing import RoundClosing, closing
from turnout.theory.time.laws import work_law
from turnout.theory.time.played import rounds_played
from turnout.theory.time.renewals import counted_steps, from_random_moment, powers
from turnout.theory.time.work import lost_at, stays, times_of

LONGEST, MOST_ENTRIES = 6000, 2_000_000  # ticks of work that are told apart, and with them clients × ticks
MUCH = 1e-3  # probability of more, from which on a doubt is noted
NEGLIGIBLE = 1e-6  # what is left over of a client's work where its law is cut
TURNS, SETTLED = 100, 1e-6  # of the fixed point: change of the probabilities to be asked
RENEWED = 0.6  # share of the new ones in every turn
SECOND_START = 0.3  # of the probability of being there
BOTH_STABLE = 0.02  # relative difference of the lengths that two starts lead to


@checked
def round_arrivals(
    pi: Shared,
    lam: Shared,
    durations: Durations,
    quorum: Share = 1.0,
    deadline: Count | None = None,
    late: Literal["drop", "keep"] = "drop",
    leaving: Leaving = "continue",
    exponent: NotNegative = 0.0,
) -> RoundArrivals:
    """Arrivals at a server that asks all that are there, and closes at a share `quorum` of them or a deadline.

    A client is asked in a share r_k of the rounds, independently of the others. The round has closed by t as soon as
    Σ 1{asked} (1{ended by t} − q) is not negative, about normal (for q = 1 a product). A client counts if the others
    have not closed the round before it ends. With J_k the rounds until its work is over, by the renewal function of the
    length, r_k = 1/(J_k + rounds until it is there). Late clients work on and are not asked meanwhile, so with "drop"
    the next quorum is a share of a faster crowd. If nobody ever leaves and durations are fixed, the rounds are played.

    Measured against simulation: docs/theory/time.md.

    `pi`, `lam`, `durations` and `leaving` are those of `work_times`. `quorum` is a share of those asked, where lost
    work counts as ended; `deadline` counts ticks, the first included. `late` says whether answers that come later are
    dropped, or used when the next round closes. `exponent` is that of their discount s(age) = (1 + age)^-exponent.
    """
    clients = read_clients(pi, lam, durations, leaving)
    _check(clients, quorum, deadline, late)
    check_nonnegative(exponent=exponent)
    if clients.always_there and clients.fixed is not None:
        return rounds_played(clients.fixed, quorum, deadline, late == "keep", exponent)
    return _estimated(clients, quorum, deadline, late == "keep", exponent)


def _estimated(
    clients: TimedClients, quorum: float, deadline: int | None, keep: bool, exponent: float
) -> RoundArrivals:
    ends, arrives, cut = _work(clients)
    memory = powers(clients.lam, ends.shape[1])
    model = _Model(clients, ends, arrives, quorum, deadline, keep, memory)
    found = model.solved(clients.pi)
    again = model.solved(SECOND_START * clients.pi)
    doubts = list[str]()
    if abs(again.length / found.length - 1) > BOTH_STABLE:
        doubts.append(f"rounds of {found.length:.3g} and of {again.length:.3g} ticks are both stable")
    if not found.settled:
        doubts.append("the probabilities to be asked did not settle")
    if quorum >= 1 and deadline is None and cut > MUCH:
        doubts.append("some work takes too long to be followed, and was cut")
    return model.arrivals(found, exponent, tuple(doubts))


def _check(clients: TimedClients, quorum: float, deadline: int | None, late: str) -> None:
    if not 0 < quorum <= 1:
        raise ValueError(f"quorum = {quorum:g}: must be above 0 and at most 1")
    if late not in ("drop", "keep"):
        raise ValueError(f'late = "{late}": must be "drop" or "keep"')
    if deadline is None:
        return
    at_least("deadline", deadline, 1)
    fastest = int(np.flatnonzero(clients.table.any(axis=0))[0]) + 1
    if late == "drop" and deadline < fastest:
        raise ValueError(
            f"deadline = {deadline}: the fastest work takes {fastest} ticks, so every answer would be late"
        )


def _work(clients: TimedClients) -> tuple[np.ndarray, np.ndarray, float]:
    """P(the work ends after w ticks), and that it arrives then; what lasts longer is put into the last column."""
    if clients.leaving == "abort":
        arriving = clients.table * stays(clients)
        return arriving + lost_at(clients), arriving, 0.0
    law = work_law(clients, most=min(LONGEST, max(MOST_ENTRIES // clients.count, clients.table.shape[1])))
    law = law[:, : int((law.cumsum(axis=1).min(axis=0) < 1 - NEGLIGIBLE).sum()) + 1]
    rest = np.maximum(1 - law.sum(axis=1), 0.0)
    law[:, -1] += rest
    return law, law, float(rest.max())


@dataclass(frozen=True)
class _Solution:
    asked: np.ndarray
    closing: RoundClosing
    rounds_at_work: np.ndarray  # J_k
    counted: np.ndarray  # P(arrives before the round closes)
    length: float
    settled: bool


def _late(shut: RoundClosing) -> tuple[np.ndarray, np.ndarray]:
    """P(closed within w ticks): of any round, and of one in which a client works that ends after w ticks."""
    return np.append(0.0, shut.interval.cumsum()[:-1]), np.pad(shut.without[:, :-1], ((0, 0), (1, 0)))


def _given(condition: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The value, which is 0 without the condition, if it holds."""
    return np.divide(value, condition, out=np.zeros_like(value), where=condition > 1e-12)


@dataclass(frozen=True)
class _Model:
    clients: TimedClients
    ends: np.ndarray
    arrives: np.ndarray
    quorum: float
    deadline: int | None
    keep: bool
    memory: np.ndarray  # λ^1, λ^2, …

    def solved(self, asked: np.ndarray) -> _Solution:
        found = self.turn(asked)
        for _ in range(TURNS):
            new = self.asked_after(found)
            if np.abs(new - found.asked).max() < SETTLED:
                return replace(found, settled=True)
            found = self.turn((1 - RENEWED) * found.asked + RENEWED * new)
        return found

    def turn(self, asked: np.ndarray) -> _Solution:
        """What follows if clients are asked with these probabilities."""
        ended = np.minimum(self.ends.cumsum(axis=1), 1.0)
        shut = closing(asked, ended, self.quorum, self.deadline)
        width = self.ends.shape[1]
        closed_before, late = _late(shut)
        more = counted_steps(shut.interval, width) - 1 - closed_before
        at_work = 1 + (self.ends * late * (1 + _given(closed_before, more))).sum(axis=1)
        counted = (self.arrives * (1 - late)).sum(axis=1)
        length = float(shut.interval @ np.arange(1, width + 1))
        return _Solution(asked, shut, at_work, counted, length, False)

    def asked_after(self, found: _Solution) -> np.ndarray:
        """r_k = 1 / (rounds until its work is over + rounds until it is there)."""
        clients, shut = self.clients, found.closing
        kept = self._memory_at_opening(shut)
        failure = np.maximum(1 - self.arrives.sum(axis=1), 0.0)
        away = (1 - failure) * (1 - clients.pi) * (1 - kept) + failure * (1 - clients.pi + clients.pi * kept)
        returns = clients.pi * (1 - self.memory @ shut.interval)
        return 1 / (found.rounds_at_work + away / np.maximum(returns, 1e-12))

    def _memory_at_opening(self, shut: RoundClosing) -> np.ndarray:
        """E λ^gap, the gap from a client's end to the next opening."""
        lam = self.clients.lam
        width = self.ends.shape[1]
        before = np.pad(shut.without[:, :-1], ((0, 0), (1, 0)))
        with_it = shut.joined - before  # closes in the tick in which the client ends
        then = np.diff(shut.joined, axis=1, append=1.0)  # column w: in the tick after
        reach = min(int(np.flatnonzero(then.max(axis=0) > 1e-12).max(initial=0)) + 1, width - 1)
        later = np.zeros_like(self.ends)
        for w in range(reach - 1, -1, -1):
            later[:, w] = lam * (then[:, w] * lam + later[:, w + 1])
        kept, in_time = self.ends, (self.ends * (1 - before)).sum(axis=1)
        if self.clients.leaving == "answer":  # since its start, as it may be away at its end
            kept = self.ends * lam[:, None] ** np.arange(width)
        met = (kept * (with_it * lam[:, None] + later)).sum(axis=1)
        late = 1 - in_time if kept is self.ends else (kept * before).sum(axis=1)
        return met + late * (self.memory @ from_random_moment(shut.interval))

    def arrivals(self, found: _Solution, exponent: float, doubts: tuple[str, ...]) -> RoundArrivals:
        success = self.arrives.sum(axis=1)
        per_round = found.asked * (success if self.keep else found.counted)
        age, discount = self._ages(found, exponent) if self.keep else (np.zeros_like(success), np.ones_like(success))
        return RoundArrivals(
            rates=per_round / found.length,
            ticks_per_step=found.length,
            work=times_of(self.clients).mean,
            age=age,
            discount=discount,
            doubts=doubts,
            asked=found.asked,
            counted=found.counted,
            averaged=self._averaged(found, per_round) / np.maximum(per_round, 1e-300),
        )

    def _ages(self, found: _Solution, exponent: float) -> tuple[np.ndarray, np.ndarray]:
        """Age 0 if it counts in its round; at least i >= 2 if i rounds are over before it arrives."""
        law = self.arrives / self.arrives.sum(axis=1, keepdims=True)
        closed_before, too_late = _late(found.closing)
        law = law * too_late
        late = law.sum(axis=1)
        age, discount = late, 1 + late * (2.0**-exponent - 1)
        step = np.append(0.0, found.closing.interval)[: law.shape[1]]
        at = step
        for number in range(2, law.shape[1] + 1):
            at = np.maximum(fftconvolve(at, step)[: step.size], 0.0)
            older = law @ _given(closed_before, at.cumsum())
            age = age + older
            discount = discount + older * ((1.0 + number) ** -exponent - float(number) ** -exponent)
            if older.max() < SETTLED:
                break
        return age, discount

    def _averaged(self, found: _Solution, per_round: np.ndarray) -> np.ndarray:
        """Mean of 1{used} / (answers in the step), round by round."""
        shut, width = found.closing, self.ends.shape[1]
        by_deadline = self.deadline is not None and float(shut.interval[min(self.deadline, width) - 1]) > 0.5
        if not self.keep and (self.quorum >= 1 or by_deadline):
            return normalised_round_weights(np.minimum(per_round, 1.0), np.ones_like(per_round))
        late = found.asked * (self.arrives.sum(axis=1) - found.counted) if self.keep else np.zeros_like(per_round)
        ticks = np.arange(1, width + 1)
        crowd = shut.answers + late.sum() / found.length * ticks
        before = np.pad(shut.without[:, :-1], ((0, 0), (1, 0)))
        then = np.diff(shut.joined, axis=1)
        after = np.pad((then / crowd[1:])[:, ::-1].cumsum(axis=1)[:, ::-1], ((0, 0), (0, 1)))
        fresh = found.asked * (self.arrives * ((shut.joined - before) / crowd + after)).sum(axis=1)
        return fresh + late * float((shut.interval * ticks / crowd).sum()) / found.length
