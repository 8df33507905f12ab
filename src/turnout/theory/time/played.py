"""Where nothing is random nothing has to be estimated: everybody is always there and durations are fixed."""

from __future__ import annotations

import numpy as np

from turnout.theory.time.arrivals import BufferedArrivals, RoundArrivals

TICKS, SETTLED = 6000, 1000  # of a buffer; what happens before it has settled is not counted
ROUNDS, SETTLED_ROUNDS = 4000, 400
SHARE_ROUNDING = 1e-4  # a quorum of 0.3 · 10 is 3, whatever the rounding


def buffered_played(durations: np.ndarray, size: int, exponent: float) -> BufferedArrivals:
    """All start in the first tick; whoever is used starts again in the next."""
    count = durations.size
    arrival, version, steps = durations.copy(), np.zeros(count, int), 0
    used, age, discount, wait = np.zeros(count), np.zeros(count), np.zeros(count), 0.0
    last_use, square = np.zeros(count, int), np.zeros(count)
    counted_steps, ticks = 0, TICKS + SETTLED + 20 * int(durations.max())
    settled = ticks - TICKS
    for tick in range(ticks):
        here = arrival <= tick
        if here.sum() < size:
            continue
        if tick >= settled:
            old = steps - version[here]
            used[here] += 1
            age[here] += old
            discount[here] += (1.0 + old) ** -exponent
            wait += float((tick - arrival[here]).sum())
            square[here] += (tick - last_use[here]) ** 2
            counted_steps += 1
        steps += 1
        last_use[here] = tick
        version[here] = steps
        arrival[here] = tick + 1 + durations[here]
    rates, times = used / TICKS, np.maximum(used, 1)
    return BufferedArrivals(
        rates=rates,
        ticks_per_step=TICKS / max(counted_steps, 1),
        work=durations.astype(float),
        age=age / times,
        discount=discount / times,
        doubts=(),
        hazard=np.ones(count),
        buffer_wait=wait / max(float(used.sum()), 1.0),
        at_work=float((rates * (durations + 1)).sum()),
        cycle_variance=np.maximum(square / times - (TICKS / times) ** 2, 0.0),
        work_second=durations.astype(float) ** 2,
    )


def rounds_played(
    durations: np.ndarray, quorum: float, deadline: int | None, keep: bool, exponent: float
) -> RoundArrivals:
    """Every round asks all that are idle; the late work on, and are idle again when they have ended."""
    count, tick, start = durations.size, 0, 0
    idle_from, asked_in = np.zeros(count, int), np.zeros(count, int)
    pending = np.zeros(count, bool)
    asked, in_time, used = np.zeros(count), np.zeros(count), np.zeros(count)
    age, discount, averaged = np.zeros(count), np.zeros(count), np.zeros(count)
    for number in range(ROUNDS + SETTLED_ROUNDS):
        if number == SETTLED_ROUNDS:
            start = tick
            for total in (asked, in_time, used, age, discount, averaged):
                total[:] = 0
        ask = (idle_from <= tick) & ~pending
        asked_in[ask] = number
        length = _length(durations[ask], quorum, deadline)
        idle_from[ask] = tick + durations[ask] + 1
        tick += length
        done = idle_from <= tick
        arrived = (pending | ask) & done if keep else ask & done
        pending = (pending | ask) & ~arrived if keep else pending
        old = number - asked_in
        asked, in_time, used = asked + ask, in_time + (ask & done), used + arrived
        age, discount = age + arrived * old, discount + arrived * (1.0 + old) ** -exponent
        averaged += arrived / max(int(arrived.sum()), 1)
    ticks, times = tick - start, np.maximum(used, 1)
    return RoundArrivals(
        rates=used / ticks,
        ticks_per_step=ticks / ROUNDS,
        work=durations.astype(float),
        age=age / times,
        discount=discount / times,
        doubts=(),
        asked=asked / ROUNDS,
        counted=in_time / np.maximum(asked, 1),
        averaged=averaged / times,
    )


def _length(durations: np.ndarray, quorum: float, deadline: int | None) -> int:
    needed = int(np.ceil(quorum * durations.size - SHARE_ROUNDING))
    length = 1 + int(np.sort(durations)[needed - 1]) if needed else 1
    return length if deadline is None else min(length, deadline)
