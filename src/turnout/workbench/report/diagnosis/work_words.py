"""How long work takes and what a server should do about it, in plain words."""

from __future__ import annotations

import numpy as np

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.findings.work_times import SLOW, SURE, WorkLengths
from turnout.workbench.diagnosis.world.pacing import PaceCost, Pacing
from turnout.workbench.report.diagnosis.readable import duration, percent
from turnout.workbench.report.page.labels import paper_label

SHOWN_QUORUM = 0.9  # whose price is named first
NOTABLE = 1.1  # times as long
FAR = 1.5  # times the recorded quantile, from which on the law is said to miss it
LAWS = {
    "same": "all work takes about the same time",
    "own": "each client takes its own time, about the same every time",
    "redrawn": "clients are alike, and times are drawn anew for every piece of work",
    "own and redrawn": "each client has a median of its own, and times are drawn anew around it",
    "steps": "time goes with the local steps, at a speed of each client's own",
}


def pace_name(cost: PaceCost) -> str:
    """A pace as a table calls it."""
    if cost.pace == "buffered":
        return f"buffer {cost.options['size']}"
    quorum = float(cost.options["quorum"])
    answers = "all" if quorum == 1 else percent(quorum)
    return f"rounds, {answers}" + (
        "" if quorum == 1 else ", late dropped" if cost.options["late"] == "drop" else ", late kept"
    )


def work_words(diagnosis: Diagnosis) -> list[str]:
    """What the log says of the length of work; nothing if it does not say."""
    times, log = diagnosis.findings.work, diagnosis.log
    if times is None:
        return []
    return [
        _taken_for(times),
        *_unended(times),
        f"The median client takes {duration(times.typical)}; {LAWS[times.law]} ({_parts(times)}).",
        *_slow(times, log.num_clients),
        *_misfit(times),
    ]


def _taken_for(times: WorkLengths) -> str:
    instead = "" if times.surely else " If a row is rather a stretch of presence, say --shows sessions."
    return f"Times are taken for those of work, as {times.because}.{instead}"


def _unended(times: WorkLengths) -> list[str]:
    if not times.running + times.given_up:
        return [f"{times.pieces:,} pieces of work ended."]
    return [
        f"{times.pieces:,} pieces of work ended; {times.running:,} were still running when the log ended, and "
        f"{times.given_up:,} were lost or given up. They are counted as longer than they were watched; left out, the "
        f"median client would seem to take {duration(times.if_forgotten)}."
    ]


def _parts(times: WorkLengths) -> str:
    if not times.differ:
        return f"no client surely differs from the others, p = {times.p_value:.2g}"
    own = percent(times.own_share)
    return f"{own} of the variance of the logarithm is the client's own; σ = {times.within:.2f} of the rest"


def _slow(times: WorkLengths, num_clients: int) -> list[str]:
    count = int(times.slow.sum())
    if not count:
        return [f"No client surely takes more than {SLOW:g} times as long as the median client."]
    slowest = float(times.median[times.slow].max()) / times.typical
    lines = [
        f"{count:,} of {num_clients:,} clients are slow: they take more than {SLOW:g} times as long as the median "
        f"client, up to {slowest:.3g} times."
    ]
    if times.slow_are_rare:
        lines.append(f"Slow clients also come less often (rank correlation {times.rank_correlation:.2f}).")
    elif np.isfinite(times.rank_correlation):
        often = (
            "more often" if times.rank_p_value < SURE else "neither more nor less often than others, as far as is seen"
        )
        lines.append(f"Slow clients come {often}.")
    return lines


def _misfit(times: WorkLengths) -> list[str]:
    """Where the law misses the lengths that were recorded."""
    if times.running + times.given_up:
        return []
    ratio = times.recorded / times.expected
    wrong = np.flatnonzero(np.maximum(ratio, 1 / ratio) > FAR)
    return [
        f"The law misses the {times.points[k]} quantile: {duration(float(times.recorded[k]))} in the log, "
        f"{duration(float(times.expected[k]))} by the law."
        for k in wrong
    ]


def pace_words(diagnosis: Diagnosis) -> list[str]:
    """What the paces cost and for whom they train."""
    pacing = diagnosis.pacing
    if pacing is None:
        return []
    sample = "" if pacing.sampled is None else f" on a sample of {pacing.sampled} clients"
    lines = [
        f"By formula{sample}, in ticks of {duration(pacing.tick_seconds)}; who is asked answers when its work is over.",
        *pace_advice(pacing, diagnosis.log.num_clients),
    ]
    if pacing.audited:
        played = ", ".join(f"{paper_label(one.strategy)} {percent(one.distance)}" for one in pacing.audited)
        lines.append(
            f"An audit of {pacing.ticks:,} ticks with {pace_name(pacing.recommended)} finds off target: {played}."
        )
    doubts = dict.fromkeys(doubt for cost in pacing.costs for doubt in cost.doubts)
    return [*lines, *(f"{note[0].upper()}{note[1:]}." for note in (*pacing.notes, *doubts))]


def pace_advice(pacing: Pacing, num_clients: int) -> list[str]:
    """What waiting costs, whom a quorum leaves out, and what to do instead: one or two sentences."""
    half, most, whole = pacing.of(0.5), pacing.of(SHOWN_QUORUM), pacing.of(1.0)
    if pacing.waits_for_all:
        price = "" if half is None or whole is None else _price(whole, half, "all")
        return [f"{price}Keep rounds that wait for all answers: no other pace trains much faster here."]
    advice = "" if half is None or most is None else _price(most, half, percent(SHOWN_QUORUM))
    if half is not None and half.unheard:
        advice += f"With the first half alone {half.unheard:,} of {num_clients:,} clients would never be heard. "
    return [advice + _instead(pacing, whole)]


def _price(cost: PaceCost, half: PaceCost, whom: str) -> str:
    times = cost.step_seconds / half.step_seconds
    return (
        f"A round that waits for {whom} takes {times:.2g} times as long as one that waits for half. "
        if times > NOTABLE
        else (f"A round that waits for {whom} takes hardly longer than one that waits for half. ")
    )


def _instead(pacing: Pacing, whole: PaceCost | None) -> str:
    cost, one = pacing.recommended, pacing.strategy
    name = pace_name(cost)
    faster = ""
    if whole is not None and whole.useful_per_hour > 0:
        gain = cost.useful_per_hour / whole.useful_per_hour
        faster = f", with {gain:.2g} times the useful updates per hour of waiting for all"
    if one is None:
        return f"{name[0].upper()}{name[1:]} hears everybody{faster}."
    plain = next((each for each in pacing.audited if each.strategy == "fedavg"), one)
    beside = "" if plain is one else f" (FedAvg would misplace {percent(plain.distance)})"
    trains = "trains for all" if one.consistent or one.distance < 0.05 else "comes nearest"
    return (
        f"{name[0].upper()}{name[1:]} with {paper_label(one.strategy)} {trains}: "
        f"{percent(one.distance)} of the weight is misplaced{beside}{faster}."
    )
