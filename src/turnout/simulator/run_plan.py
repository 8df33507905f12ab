"""How long to run, and when to evaluate and to report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int


class Bounds(NamedTuple):
    """The part of a run to play; traced, so that one program serves every length and every segment."""

    first: Int[Array, ""]  # block
    last: Int[Array, ""]  # block after the last
    every: Int[Array, ""]  # rounds of a block
    rounds: Int[Array, ""]  # of the whole run


@dataclass(frozen=True)
class RunPlan:
    """How long to run, and when to evaluate and report."""

    rounds: int
    every: int  # rounds between evaluations
    segment: int | None  # rounds between reports of progress
    metrics: tuple[str, ...] | None

    @property
    def blocks(self) -> int:
        """Evaluations: one before each block of rounds, and one at the end."""
        return -(-self.rounds // self.every) + 1

    @property
    def stride(self) -> int:
        """Blocks of one segment."""
        return self.blocks if self.segment is None else min(self.blocks, max(1, -(-self.segment // self.every)))

    @property
    def evaluated(self) -> np.ndarray:
        """The rounds after which the model is evaluated."""
        return np.minimum(np.arange(self.blocks) * self.every, self.rounds)

    def rounds_of(self, blocks: int) -> int:
        """Rounds that so many blocks have."""
        return min(blocks * self.every, self.rounds)

    def bounds(self, first: int, last: int) -> Bounds:
        return Bounds(*jax.device_put([np.int32(n) for n in (first, last, self.every, self.rounds)]))
