"""What a server that runs for days says of itself: one line per step, and numbers for Prometheus."""

from __future__ import annotations

import numpy as np

from turnout.flower.server.flow import Flow
from turnout.flower.server.turn import RoundRecord


def live_numbers(flow: Flow, record: RoundRecord) -> dict[str, float]:
    """Numbers of the last step, and of what is under way."""
    hours = 0.0 if flow.origin is None else (flow.clock.now() - flow.origin) / 3600.0
    ages = [one.age for one in flow.arrivals[-len(record.arrived) :] if one.outcome == "used"] if record.arrived else []
    return {
        "step": record.t + 1,
        "steps_per_hour": round((record.t + 1) / hours, 2) if hours > 0 else 0.0,
        "arrived": len(record.arrived),
        "at_work": len(flow.working),
        "waiting": len(flow.jobs) - len(flow.working),
        "age_median": float(np.median(ages)) if ages else 0.0,
        "age_most": float(max(ages, default=0)),
        "clients": len(flow.driver.directory),
        "silent": len(flow.driver.directory.silent),
        **{f"never_counted_{name}": count for name, count in flow.counts.items()},
    }


def line_of(flow: Flow, record: RoundRecord) -> str:
    """The same as one line of `name=value`, with the names of who is silent."""
    numbers = {name: value for name, value in live_numbers(flow, record).items() if name != "silent"}
    silent = ",".join(sorted(flow.driver.directory.silent)[:5]) or "nobody"
    return " ".join(f"{name}={value:g}" for name, value in numbers.items()) + f" silent={silent}"
