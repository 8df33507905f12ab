"""The shares of uploads that arrive and the local steps in the log: the rest of the fitted world."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from turnout.workbench.diagnosis.findings.run_sums import PerClient
from turnout.workbench.diagnosis.reading.log import Log


def success_of(log: Log) -> PerClient | None:
    """Share of each client's uploads that arrive, the mean where it is unknown; None: nothing is lost."""
    if log.arrived is None or not np.isfinite(log.arrived).any():
        return None
    arrived = np.where(np.isfinite(log.arrived), log.arrived, np.nanmean(log.arrived))
    return arrived if arrived.min() < 1 else None


def steps_of(log: Log) -> Int[np.ndarray, " clients"] | None:
    """Steps of each client, whole and at least one, the median where unknown; None: not in the log."""
    if log.steps is None or not np.nansum(log.steps) > 0:
        return None
    steps = np.where(np.isfinite(log.steps), log.steps, np.nanmedian(log.steps))
    return np.maximum(np.rint(steps), 1).astype(np.int64)
