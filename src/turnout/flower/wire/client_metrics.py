"""What our own client tells beside an update, and how long that is; both ends use it, and it loads no jax."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Metrics of our own client, which no user's can be taken for.
OWN_ROUND, OWN_NORM = "turnout.round", "turnout.norm"
OWN_BASE = "turnout.based-on"  # the round of the update to which this one is the difference, 0 if it is none


@dataclass(frozen=True)
class Dropped:
    """The reason why a reply is dropped."""

    reason: str


def length(update: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of an update; infinite or NaN if an entry is, or if it is far beyond any limit."""
    return math.sqrt(sum(_square(part) for part in update.values()))


def _square(part: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(np.dot(part.ravel(), part.ravel()))
