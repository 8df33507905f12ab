"""The numbers that an annotation allows, and the usual ones by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from turnout.types import PerClient, Scalar, Steps


@dataclass(frozen=True)
class Numbers:
    """The numbers that an annotation allows, from `low` to `high`; NaN is never one of them."""

    low: float | int = -math.inf
    high: float | int = math.inf
    above: bool = False  # `low` itself is not allowed
    below: bool = False  # `high` itself is not allowed
    whole: bool = False  # of a whole type: 3.0 is not
    infinite: bool = False  # infinity is allowed

    def hold(self, values: np.ndarray) -> np.ndarray:
        """Which values are allowed."""
        inside = (values > self.low if self.above else values >= self.low) & (
            values < self.high if self.below else values <= self.high
        )
        return inside & (np.isfinite(values) | (self.infinite & ~np.isnan(values)))

    def __str__(self) -> str:
        kind = "whole number" if self.whole else "number"
        if self.high < math.inf and self.low > -math.inf and not self.above:
            return f"a {kind} from {_write(self.low)} to {'below ' if self.below else ''}{_write(self.high)}"
        limits: list[str] = []
        if self.low > -math.inf:
            limits.append(f"above {_write(self.low)}" if self.above else f"of {_write(self.low)} or more")
        if self.high < math.inf:
            limits.append(f"{'below' if self.below else 'at most'} {_write(self.high)}")
        is_endless = self.high == math.inf and not (self.whole or self.infinite)
        return " ".join([f"a {'finite ' if is_endless else ''}{kind}", *([" and ".join(limits)] if limits else [])])


def _write(limit: float | int) -> str:
    """A limit as people write it."""
    powers = {2**31 - 1: "2³¹ - 1", 2**32 - 1: "2³² - 1", 2**53: "2⁵³"}
    return powers.get(int(limit), f"{limit:,.15g}")


MAX_COUNT = 2**24  # of rounds and of local steps, which are counted in single precision: it is exact up to here
NUM_SEEDS = 2**32  # a seed has 32 bits
MAX_RUNS = 10**6  # with as many seeds; more are refused before anything is allocated
MAX_WHOLE = 2**53  # from here on not every whole number is a float
_WIDEST = 2**31  # of whole numbers on the device

Count = Annotated[int, Numbers(1, _WIDEST - 1)]
LongCount = Annotated[int, Numbers(1, MAX_WHOLE)]  # of formulas
CountOrZero = Annotated[int, Numbers(0, _WIDEST - 1)]
NumRounds = Annotated[int, Numbers(1, MAX_COUNT)]
Seed = Annotated[int, Numbers(0, NUM_SEEDS - 1)]
Positive = Annotated[float, Numbers(0, above=True)]
NotNegative = Annotated[float, Numbers(0)]
Share = Annotated[float, Numbers(0, 1)]
OpenShare = Annotated[float, Numbers(0, 1, above=True, below=True)]
StepCount = Annotated[int, Numbers(0, MAX_COUNT)]
# Of fields that may be traced, so that a grid of them is one program.
ClientCount = Annotated[Scalar, Numbers(1, _WIDEST - 1, whole=True)]
RoundCount = Annotated[Scalar, Numbers(0, MAX_COUNT, whole=True)]
PositiveScalar = Annotated[Scalar, Numbers(0, above=True)]
NotNegativeScalar = Annotated[Scalar, Numbers(0)]
LengthScalar = Annotated[Scalar, Numbers(0, above=True, infinite=True)]
ShareScalar = Annotated[Scalar, Numbers(0, 1)]
# One per client, as fields of worlds have them.
Shares = Annotated[PerClient, Numbers(0, 1)]
NotNegatives = Annotated[PerClient, Numbers(0)]
Positives = Annotated[PerClient, Numbers(0, above=True)]
StepCounts = Annotated[Steps, Numbers(0, MAX_COUNT)]
Counts = Annotated[Steps, Numbers(1, _WIDEST - 1)]
