"""Importance sampling: draws by any odds, corrected by the weights."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp

from turnout.declarations import ClientCount, Numbers
from turnout.strategies.base import Strategy, listed, per_client
from turnout.strategies.sampling import with_replacement
from turnout.types import Ask, Fleet, PerClient, RandomKey, View, divide

Odds = Annotated[PerClient, Numbers(0, above=True)]


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

    cohort: ClientCount = 10  # K, draws per round
    odds: Odds | None = per_client(converter=listed(Odds))  # by client; the target if not given

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        if self.odds is not None and self.odds.shape != (fleet.num_clients,):
            raise ValueError(f"odds must be {fleet.num_clients} numbers, one per client, not shape {self.odds.shape}")

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        odds = jnp.where(view.available, view.target if self.odds is None else self.odds, 0.0)
        copies = with_replacement(key, odds, self.cohort, view.slots, view.members)
        chance = divide(odds, jnp.broadcast_to(jnp.sum(odds), odds.shape))
        weight = divide(view.target, chance * jnp.asarray(self.cohort, odds.dtype))
        return Ask(copies, weight, jnp.ones_like(copies)), state
