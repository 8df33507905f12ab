"""Autocorrelation of every client from one slot to the next, counted from its transitions."""

from __future__ import annotations

import numpy as np

from turnout.workbench.diagnosis.findings.rates import transitions
from turnout.workbench.diagnosis.findings.run_sums import PerClient, watched_slots
from turnout.workbench.diagnosis.reading.log import Log


def lag_one(log: Log) -> PerClient:
    """ρ̂(1) = mean of (x_t - π̂)(x_{t+1} - π̂) over watched pairs, over π̂(1 - π̂); NaN if a client never changes.

    With n₁₁ pairs of presence, n₁₀ and n₀₁ changes and n pairs in all, the sum is n₁₁ - π̂(2n₁₁ + n₁₀ + n₀₁) + nπ̂².
    """
    steps = transitions(log)
    watched = watched_slots(log)
    on = log.present.slots_of(log.num_clients)
    pi = on / np.maximum(watched, 1)
    pairs = steps.off_off + steps.off_on + steps.on_off + steps.on_on
    total = steps.on_on - pi * (2 * steps.on_on + steps.on_off + steps.off_on) + pairs * pi**2
    changes = (pairs > 0) & (on > 0) & (on < watched)
    variance = np.where(changes, pi * (1 - pi), 1.0)
    return np.where(changes, total / np.maximum(pairs, 1) / variance, np.nan)
