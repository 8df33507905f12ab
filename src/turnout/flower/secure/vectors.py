"""What one client adds to a sum, as whole numbers of 32 bits: an update in fixed points, and numbers with more room.

An entry of the update is one number; its range leaves room for the cohort. Every other number, such as a weight or a
metric, is two: its upper half, and its lower 16 bits, so that its range is a matter of 2⁴⁴ units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_LOW = 16  # bits of the lower half: 65,536 clients leave a sum of them exact
_MOST = 2**44


def size_of(entries: int, numbers: int) -> int:
    """Length of the vector."""
    return entries + 2 * numbers


def to_whole(update: np.ndarray, numbers: Sequence[float], quantum: float) -> np.ndarray:
    """The vector; a ValueError if it holds what is not finite, or an update that is no multiple of the quantum."""
    units = np.rint(np.asarray(update, np.float64) / quantum)
    told = np.clip(np.rint(np.asarray(numbers, np.float64) / quantum), -_MOST, _MOST)
    if not (np.isfinite(units).all() and np.isfinite(told).all()):
        raise ValueError("a value that is not finite cannot be summed up")
    if np.abs(units).max(initial=0.0) >= 2**31:
        raise ValueError("an update beyond 32 bits cannot be summed up: it was not put in fixed points")
    whole = told.astype(np.int64)
    halves = np.stack([whole >> _LOW, whole & (2**_LOW - 1)], axis=1).ravel()
    return np.concatenate([units.astype(np.int64), halves]).astype(np.uint32)


def from_sum(total: np.ndarray, entries: int, quantum: float) -> tuple[np.ndarray, np.ndarray]:
    """The sums of updates and of numbers."""
    update = total[:entries].view(np.int32) * quantum
    halves = total[entries:].reshape(-1, 2)
    upper, lower = halves[:, 0].view(np.int32).astype(np.int64), halves[:, 1].astype(np.int64)
    return update, ((upper << _LOW) + lower) * quantum
