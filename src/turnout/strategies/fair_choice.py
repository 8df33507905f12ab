"""Fair choice: ask so that slow and rare clients come as often as the target says, and weigh all updates alike."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.declarations import ClientCount, Numbers
from turnout.strategies.base import Strategy, listed, per_client
from turnout.strategies.sampling import largest
from turnout.strategies.staleness import num_awaited
from turnout.types import Ask, Cohort, Fleet, Mask, Move, Params, PerClient, RandomKey, Reports, View, divide

Odds = Annotated[PerClient, Numbers(0)]


class FairChoice(Strategy[PerClient]):
    """w ← w + (1/K) Σ_i Δ_i over all that have arrived; whom the server asks makes the weights right.

    When a place is free, and more clients are idle than there are places, those are asked whose number of updates so
    far is smallest against their target: (n_k + 1) / α_k. With `odds` clients are drawn by these instead, one by one
    without replacement. Odds that make updates come in proportion to α_k follow from how long each client takes and is
    away: -log(1 - h_k) with h_k = 1 / (1 + π_k V_k), V_k = 1 / (c α_k) minus the ticks from use to use of a client that
    is asked at once, and c such that C clients are at work: `turnout.theory.fair_odds`.

    Needs a pace with a cap, such as `Buffered(size=K, concurrency=C)`, or a `cohort`: if everybody is asked there is no
    choice. Right up to C* at work; beyond it the slowest client for its target cannot come often enough, whoever is
    asked. K is the size of the buffer, or what has arrived in rounds and by the clock.

    Reference: this library. F3AST too asks those who were chosen too rarely.
    """

    server_memory = "O(N)"
    consistent = "if few enough are at work, with work alike for all"
    title = "Fair choice"
    references = ("ribero2023federated",)

    odds: Odds | None = per_client(converter=listed(Odds))  # those furthest behind their target if not given
    cohort: ClientCount | None = None  # clients asked at a time; as many as the pace has places for if not given

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        if self.odds is None:
            return
        odds = np.asarray(self.odds)
        if odds.shape != (fleet.num_clients,):
            raise ValueError(f"odds must be {fleet.num_clients} numbers, one per client, not shape {odds.shape}")
        wrong = np.flatnonzero(~(np.isfinite(odds) & (odds > 0)))
        if wrong.size:
            raise ValueError(f"odds of client {wrong[0]} must be above 0, or it never counts, not {odds[wrong[0]]}")

    def init(self, fleet: Fleet, params: Params) -> PerClient:
        return jnp.zeros_like(fleet.importance)

    def select(self, state: PerClient, view: View, key: RandomKey) -> tuple[Ask, PerClient]:
        return Ask.of(self._chosen(state, view, key), jnp.ones_like(state)), state

    def _chosen(self, state: PerClient, view: View, key: RandomKey) -> Mask:
        limits = [jnp.asarray(limit, jnp.int32) for limit in (view.openings, self.cohort) if limit is not None]
        if not limits:
            return view.available
        if self.odds is None:
            # Equal clients take turns at random: the noise is far below a difference of one update.
            behind = divide(view.target, state + 1.0) * (1.0 + 1e-6 * jr.uniform(key, state.shape))
        else:
            behind = self.odds / jr.exponential(key, state.shape)  # who wins a race with these rates
        return largest(behind, view.available, jnp.min(jnp.stack(limits)), view.slots)

    def aggregate(
        self, state: PerClient, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, PerClient]:
        return Move(cohort.factors / num_awaited(view, cohort)), state + cohort.mask.astype(jnp.float32)
