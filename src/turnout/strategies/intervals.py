"""The mean interval between the participations of each client, which estimates one over its participation rate."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout.types import Fleet, Mask, PerClient, Scalar, divide


def check_cutoff(cutoff: Scalar) -> None:
    """Raise a ValueError if no interval can be that long."""
    if not float(cutoff) >= 1:
        raise ValueError(f"cutoff must be 1 round or more, not {cutoff}")


class Intervals(eqx.Module):
    """Counts per client. An interval is closed by a participation, or when it is as long as the cut-off."""

    gap: PerClient  # S, rounds since the last interval was closed
    total: PerClient  # sum of the closed intervals
    count: PerClient  # M, closed intervals

    @classmethod
    def empty(cls, fleet: Fleet) -> Intervals:
        zeros = jnp.zeros_like(fleet.importance)
        return cls(zeros, zeros, zeros)

    @property
    def mean(self) -> PerClient:
        """Of the closed intervals, 1 before the first."""
        return divide(self.total, self.count, otherwise=1.0)

    def after(self, came: Mask, cutoff: Scalar) -> Intervals:
        """The counts after a round in which these clients took part."""
        gap = self.gap + 1.0
        closed = came | (gap >= jnp.asarray(cutoff, gap.dtype))
        return Intervals(
            gap=jnp.where(closed, 0.0, gap),
            total=self.total + jnp.where(closed, gap, 0.0),
            count=self.count + closed.astype(gap.dtype),
        )
