"""Sentences on the cycles of a fleet."""

from __future__ import annotations

import numpy as np

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.findings.cycles import Cycle
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.report.diagnosis.readable import duration, in_zone, percent

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def cycle_words(diagnosis: Diagnosis) -> list[str]:
    """What was found of cycles, and the window that the longest one makes."""
    found, log = diagnosis.findings.cycles, diagnosis.log
    if not found.tested:
        return ["The log is too short to show a cycle."]
    lines = [_cycle(cycle, log) for cycle in found.tested]
    if found.window is None:
        return lines
    unit = "" if log.slot_seconds is None else f", if a round lasts {duration(log.slot_seconds)}"
    window = f"window = {found.window:,}{unit}"
    return [*lines, f"Amplified FedAvg and Amplified SCAFFOLD should go further once per cycle: {window}."]


def _cycle(cycle: Cycle, log: Log) -> str:
    unnamed = cycle.name == "unnamed"
    name = f"cycle of {cycle.period:.4g} rounds" if unnamed else f"{cycle.name} cycle"
    if not cycle.found:
        none = f"No cycle is seen; the likeliest has {cycle.period:.4g} rounds" if unnamed else f"No {name} is seen"
        return f"{none} (p = {cycle.p_value:.2g})."
    at = _peak(cycle, log)
    low, high = percent(float(np.nanmin(cycle.profile))), percent(float(np.nanmax(cycle.profile)))
    return (
        f"There is a {name}: the fleet is fullest at {at}, with {high} of it there, and {low} when it is emptiest. "
        f"The cycle explains {percent(cycle.variance_share)} of the fleet's ups and downs (p = {cycle.p_value:.2g})."
    )


def _peak(cycle: Cycle, log: Log) -> str:
    """When a cycle is at its height, to ten minutes."""
    if cycle.name == "unnamed":
        return f"round {cycle.peak:.0f} of it"
    minutes = round(cycle.peak * 6) * 10
    clock = f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
    if cycle.name == "daily":
        return f"{clock}{in_zone(log)}"
    day = minutes // (24 * 60) % 7
    return f"{WEEKDAYS[day]}, {clock}{in_zone(log)}" if log.dated else f"{clock} of day {day + 1} of the week"
