"""Recorded time cut into slots of equal length: a slot has the state of its middle."""

import numpy as np
from jaxtyping import Float, Int

DAY = 86400.0  # seconds
MAX_SLOTS = 10_000_000  # more are refused as a mistake


def slots_covered(
    start: Float[np.ndarray, " rows"], stop: Float[np.ndarray, " rows"], slot: float
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
    """First slot, and the one after the last, whose middle (s + ½)·slot lies in [start, stop), all in seconds."""
    return np.ceil(start / slot - 0.5).astype(np.int64), np.ceil(stop / slot - 0.5).astype(np.int64)


def slots_within(seconds: Float[np.ndarray, " rows"], slot: float) -> Int[np.ndarray, " rows"]:
    """Number of slots that cover a length of time, at least one; the last may reach beyond it."""
    return np.maximum(np.ceil(seconds / slot - 1e-9), 1).astype(np.int64)
