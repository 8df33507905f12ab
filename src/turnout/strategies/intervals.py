"""The mean interval between the participations of each client, which estimates one over its participation rate."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from turnout.strategies.base import listed
from turnout.types import Fleet, Mask, PerClient, Scalar, divide

Rates = PerClient | Scalar | None  # p, one number or one per client; None where it is estimated


def as_rates(rates: Sequence[float] | Rates) -> Rates:
    """Converter of a field of rates: a list is one per client."""
    return listed(PerClient)(rates) if isinstance(rates, Sequence) else rates


def check_rates(rates: Rates, fleet: Fleet) -> None:
    """Raise a ValueError if given rates are not those of this fleet."""
    if rates is None:
        return
    given = np.asarray(rates)
    if given.shape not in ((), (fleet.num_clients,)):
        raise ValueError(f"rates must be one number or {fleet.num_clients}, one per client, not shape {given.shape}")
    if not np.all((given > 0) & (given <= 1)):
        wrong = given[~((given > 0) & (given <= 1))].flat[0]
        raise ValueError(f"rates must be above 0 and at most 1, not {wrong}")


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

    def usual(self, rates: Rates) -> PerClient:
        """1 / p of each client: by the given rates, or else the mean of its intervals."""
        if rates is None:
            return self.mean
        given = jnp.broadcast_to(jnp.asarray(rates, jnp.float32), self.gap.shape)
        return divide(jnp.ones_like(given), given)

    def after(self, came: Mask, cutoff: Scalar) -> Intervals:
        """The counts after a round in which these clients took part."""
        gap = self.gap + 1.0
        closed = came | (gap >= jnp.asarray(cutoff, gap.dtype))
        return Intervals(
            gap=jnp.where(closed, 0.0, gap),
            total=self.total + jnp.where(closed, gap, 0.0),
            count=self.count + closed.astype(gap.dtype),
        )
