"""A law of durations fitted to the work in a log, as an experiment takes it, and the length of a tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnout.workbench.diagnosis.findings.work_times import WorkLengths
from turnout.workbench.diagnosis.reading.log import LoggedWork
from turnout.world import durations
from turnout.world.durations import Durations

TICKS_OF_FAST = 4  # that the work of the fastest tenth takes at least
MOST_TICKS = 200  # of all work but one piece in a hundred
LONGEST = 1000  # ticks, at which a drawn length is cut
FAST, LONG = 0.1, 0.99  # quantiles of the medians, and of the lengths
BEYOND = 3.1  # standard deviations: one piece in a thousand is longer
ROUND_LENGTHS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclass(frozen=True)
class FittedDurations:
    """A law by its name and its arguments: plain numbers and lists, as an experiment takes them."""

    kind: str  # a name in turnout.durations
    parameters: Mapping[str, Any]
    tick_seconds: float

    def law(self, num_clients: int) -> Durations:
        """The law itself."""
        return getattr(durations, self.kind)(num_clients, **self.parameters)


def fit_durations(work: LoggedWork, times: WorkLengths, chosen: np.ndarray) -> FittedDurations:
    """The law that the log shows, for the chosen clients: the same for all or each with its own, fixed or redrawn.

    Ends are recorded as the server saw them, so work is answered as soon as it is over.
    """
    tick = tick_of(work, times)
    median = times.median[chosen]
    ticks = median / tick
    common: dict[str, Any] = {"leaving": "answer", "tick_seconds": tick}
    if times.law in ("same", "own"):
        whole = np.maximum(np.ceil(ticks - 1e-9) - 1, 0).astype(int)
        return FittedDurations("fixed", {"ticks": _one_or_each(whole.tolist()), **common}, tick)
    if times.law == "steps" and times.offset is not None and work.steps is not None:
        per_step = median / (times.offset + usual_steps(work, chosen, len(times.median)))
        parts = {"per_step": per_step, "download": per_step * times.offset}
        each = {name: _one_or_each(_digits(values)) for name, values in parts.items()}
        return FittedDurations("timed", common | each | {"sigma": _digits([times.within])[0]}, tick)
    longest = max(float(work.seconds.max()) / tick, float((ticks * np.exp(BEYOND * times.within)).max()))
    most = float(np.clip(np.ceil(longest), 1, LONGEST))
    drawn = {"median": _one_or_each(_digits(ticks)), "sigma": _digits([times.within])[0], "most": most}
    return FittedDurations("lognormal", drawn | common, tick)


def tick_of(work: LoggedWork, times: WorkLengths) -> float:
    """A usual length such that the fastest work takes some ticks, and the longest not too many."""
    fast = float(np.quantile(times.median[times.counted > 0], FAST)) / TICKS_OF_FAST
    longest = float(np.quantile(work.seconds, LONG)) / MOST_TICKS
    scale = 10.0 ** np.floor(np.log10(max(min(fast, 1.0), 1e-9)))  # below a second: 1, 2 or 5 times a power of ten
    usual = [length * scale for length in (1, 2, 5)] if fast < 1 else list(map(float, ROUND_LENGTHS))
    tick = max((length for length in usual if length <= fast), default=usual[0])
    if longest <= tick:
        return float(f"{tick:.12g}")
    return float(min((length for length in ROUND_LENGTHS if length >= longest), default=longest))


def usual_steps(work: LoggedWork, chosen: np.ndarray, num_clients: int) -> np.ndarray:
    """Mean steps of each chosen client in its work, those of the fleet for a client without work."""
    assert work.steps is not None
    count = np.bincount(work.client, minlength=num_clients)
    mean = np.bincount(work.client, work.steps, minlength=num_clients) / np.maximum(count, 1)
    return np.where(count > 0, mean, float(work.steps.mean()))[chosen]


def _one_or_each(values: list[Any]) -> Any:
    return values[0] if len(set(values)) == 1 else values


def _digits(values: Any) -> list[float]:
    return [float(f"{float(value):.4g}") for value in values]
