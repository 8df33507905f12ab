"""Numbers of claims and measures as text, in their unit."""

from __future__ import annotations

from typing import Literal

import numpy as np

from turnout.statistics import Interval

Unit = Literal["", "pp", "%", "rounds"]


def lead_in_words(values: np.ndarray, unit: Unit) -> str:
    if not np.isfinite(values).all():
        return f"in {int((values > 0).sum())} of {values.size} runs"
    interval = Interval.of(values)
    mean = with_unit(interval.mean, unit, signed=True)
    if interval.count < 2:
        return f"{mean} (one run)"
    low, high = (number_in_words(end, unit, signed=True) for end in (interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def spread_in_words(values: np.ndarray, unit: Unit) -> str:
    reached = values[np.isfinite(values)]
    if reached.size == 0:
        return "never"
    mean = with_unit(float(reached.mean()), unit)
    mean += f" ± {number_in_words(float(reached.std(ddof=1)), unit)}" if reached.size > 1 else ""
    return mean if reached.size == values.size else f"{mean} in {reached.size} of {values.size}"


def from_unit(number: float | int | str, unit: Unit) -> float:
    """A claim's number, given in its unit, as measures have it: shares, and infinity for never."""
    if number == "never":
        return float("inf")
    return float(number) / 100 if unit in ("pp", "%") else float(number)


def with_unit(value: float, unit: Unit, signed: bool = False) -> str:
    number = number_in_words(value, unit, signed)
    return f"{number} {unit}" if unit in ("pp", "%") else number


def number_in_words(value: float, unit: Unit, signed: bool = False) -> str:
    if not np.isfinite(value):
        return "never"
    sign = "+" if signed else ""
    if unit in ("pp", "%"):
        return f"{value * 100:{sign}.2f}"
    whole = unit == "rounds" or abs(value) >= 1000
    return f"{value:{sign},.0f}" if whole else f"{value:{sign}.3g}"
