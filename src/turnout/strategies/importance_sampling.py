"""Importance sampling: draws by any odds, corrected by the weights."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from turnout.strategies.base import Strategy, per_client
from turnout.strategies.sampling import with_replacement
from turnout.types import Ask, Fleet, PerClient, RandomKey, Scalar, View, divide


def _as_odds(values: Sequence[float] | PerClient | None) -> PerClient | None:
    return None if values is None else jnp.asarray(values, jnp.float32)


class ImportanceSampling(Strategy[None]):
    """Direction (1/K) Σ over received draws of (α_k / p_k) Δ_k: K draws with replacement, p_k by the given odds.

    Unbiased for Σ_{k ∈ A_t} α_k Δ_k whatever the odds, which only change the variance. With the target as odds it is
    FedAvg's `draws` where everyone is available. Effective weight α_k π_k (1 - q_k), times the reach.

    Deviation: an absent client cannot be drawn; p_k is normalised over the available.

    Reference: the "IS" of the FedACS paper (Weng et al. 2025).
    """

    consistent = "if availability, links and work are alike for all"
    title = "Importance sampling"
    references = ("weng2025heterogeneity",)

    cohort: Scalar = 10  # K, draws per round
    odds: PerClient | None = per_client(converter=_as_odds)  # by client; the target if not given

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        if self.odds is None:
            return
        odds = np.asarray(self.odds)
        if odds.shape != (fleet.num_clients,):
            raise ValueError(f"odds must be {fleet.num_clients} numbers, one per client, not shape {odds.shape}")
        if not np.all(np.isfinite(odds) & (odds > 0)):
            client = int(np.argmin(np.where(np.isfinite(odds), odds, -np.inf)))
            raise ValueError(f"odds of client {client} must be above 0, or it never counts, not {odds[client]}")

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        odds = jnp.where(view.available, view.target if self.odds is None else self.odds, 0.0)
        copies = with_replacement(key, odds, self.cohort, view.slots, view.members)
        chance = divide(odds, jnp.broadcast_to(jnp.sum(odds), odds.shape))
        weight = divide(view.target, chance * jnp.asarray(self.cohort, odds.dtype))
        return Ask(copies, weight, jnp.ones_like(copies)), state
