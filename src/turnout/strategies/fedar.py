"""FedAR: the last updates of all clients that have come, each by its age (Jiang et al. 2024)."""

from __future__ import annotations

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.declarations import NotNegativeScalar, Numbers
from turnout.strategies.base import Strategy
from turnout.strategies.memory_rows import rows_of_zeros, sum_rows
from turnout.strategies.staleness import Discount, discounted
from turnout.types import Cohort, Fleet, Mask, Move, Params, PerClient, Reports, Scalar, View, divide


class LastSent(eqx.Module):
    """What each client sent last."""

    rows: Params  # G, one update per client, zero before its first
    heard: Mask
    round: PerClient  # of which the update is


class FedAR(Strategy[LastSent]):
    """w ← w + η_t Σ_k α_k ψ(age_k) u_k / Σ_k α_k, both sums over all clients heard so far.

    u_k = Δ_k / η is what client k sent last, per unit of the rate it was made with, and its age the rounds since its
    client was asked. Everyone available trains. ψ is 1 (`constant`), (1 + age)^-exponent (`polynomial`), or 1 up to the
    age `within` and 1 / (slope (age - within) + 1) beyond (`hinge`). With a constant ψ it is MIFA that does not count
    clients before their first update.

    An update is used again and again until its client comes, less with its age: a stale direction is walked less far,
    and its client counts less. A client that comes in a share p of the rounds counts by α_k times the mean of ψ over
    its ages, so that only a constant ψ gives every client its target.

    Deviation: the target α_k stands where the paper has 1, and 1 / N_t for the clients that have appeared.
    Deviation: the paper's ψ, capped so that stale updates cannot dominate, could not be read; by default ψ is 1.
    Deviation: a round in which nothing arrives leaves the model, as in MIFA here.

    Reference: C. Jiang et al., FedAR: Addressing Client Unavailability in Federated Learning with Local Update
    Approximation and Rectification, 2024.
    """

    server_memory = "O(N · model)"
    consistent = "for a constant ψ, if steps are small or shrink, with work alike for all"
    references = ("jiang2024fedar",)

    discount: Discount = eqx.field(static=True, default="constant")  # ψ
    exponent: NotNegativeScalar = 0.5  # of `polynomial`
    slope: NotNegativeScalar = 0.5  # of `hinge`
    within: Annotated[Scalar, Numbers(0)] = 10.0  # of `hinge`, rounds

    def init(self, fleet: Fleet, params: Params) -> LastSent:
        nothing = jnp.zeros_like(fleet.importance)
        return LastSent(rows_of_zeros(fleet, params), jnp.zeros(nothing.shape, bool), nothing)

    def aggregate(
        self, state: LastSent, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, LastSent]:
        cohort, t = cohort.speaking(reports), jnp.asarray(view.t, jnp.float32)
        _, rows = cohort.swap(state.rows, tree.rows_per_unit(reports.updates, cohort.lr))
        heard = state.heard | cohort.mask
        made = jnp.where(cohort.mask, t - cohort.put(cohort.age), state.round)
        share = jnp.where(heard, view.importance, 0.0)
        share = divide(share, jnp.broadcast_to(jnp.sum(share), share.shape))
        trust = discounted(self.discount, t - made, self.exponent, self.slope, self.within)
        direction = tree.scale(sum_rows(rows, share * trust), view.lr)
        return Move(cohort.factors, direction), LastSent(rows, heard, made)
