"""Robust centres of the updates of a round, in place of their mean."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from turnout.flower.settings import Robust
from turnout.flower.wire.layout import Arrays

_PIECE = 2**24  # numbers in memory at once, of all updates together
_TRIMMED = 0.2  # share of the updates that is left out at either end, one at least
_ITERATIONS, _PRECISION = 100, 1e-5  # of the geometric median, by its weights
_NEAREST = 1e-9  # distance to the centre, as a share of the largest: below it a weight stays finite


def fill_with_centre(updates: Sequence[Arrays], scales: Sequence[float], robust: Robust) -> None:
    """Let every update be the centre of all, so that any weights with the same sum make the same step.

    The centre is taken of the updates divided by their scales, such as the clients' step lengths, and each update gets
    it times its own scale. Updates are rows of one buffer and are written in place, piece by piece: the memory needed
    does not grow with the model.
    """
    if len(updates) < 2:
        return
    factors = np.asarray(scales, np.float32)[:, None]
    centre = _CENTRES[robust](updates, factors)
    for rows, block in _pieces(updates, factors):
        middle = centre(block)
        for row, factor in zip(rows, factors[:, 0], strict=True):
            row[:] = factor * middle


def _pieces(updates: Sequence[Arrays], factors: np.ndarray) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """The same entries of all updates: where they are, and their values divided by the scales, one row per update."""
    width = max(1, _PIECE // len(updates))
    for name in updates[0]:
        flat = [update[name].reshape(-1) for update in updates]  # views, since rows of a buffer are contiguous
        for begin in range(0, flat[0].size, width):
            rows = [row[begin : begin + width] for row in flat]
            yield rows, np.stack(rows) / factors


Centre = Callable[[np.ndarray], np.ndarray]


def _median(_updates: Sequence[Arrays], _factors: np.ndarray) -> Centre:
    return lambda block: np.median(block, axis=0)


def _trimmed(updates: Sequence[Arrays], _factors: np.ndarray) -> Centre:
    cut = min(max(1, math.floor(_TRIMMED * len(updates))), (len(updates) - 1) // 2)
    return lambda block: np.sort(block, axis=0)[cut : len(block) - cut].mean(axis=0)


def _geometric(updates: Sequence[Arrays], factors: np.ndarray) -> Centre:
    """The point with the least sum of distances, by Weiszfeld's iterations; the distances are all that is kept."""
    weights = np.full(len(updates), 1.0 / len(updates), np.float32)
    for _ in range(_ITERATIONS):
        squares = np.zeros(len(updates))
        for _rows, block in _pieces(updates, factors):
            squares += np.square(block - weights @ block).sum(axis=1, dtype=np.float64)
        distances = np.sqrt(squares)
        if distances.max() == 0:
            break
        shares = 1.0 / np.maximum(distances, _NEAREST * distances.max())
        before, weights = weights, (shares / shares.sum()).astype(np.float32)
        if np.abs(weights - before).max() < _PRECISION:
            break
    return lambda block: weights @ block


_CENTRES: dict[Robust, Callable[[Sequence[Arrays], np.ndarray], Centre]] = {
    "median": _median,
    "trimmed": _trimmed,
    "geometric": _geometric,
}
