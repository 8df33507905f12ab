"""Some of many, spread evenly: for charts that many points would only blot, and samples of large fleets."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def evenly(count: int, most: int) -> Int[np.ndarray, " chosen"]:
    """At most so many of the numbers below `count`, in order, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
