"""FedStale: fresh updates by inverse frequency, and the last ones of all clients in part (Rodio & Neglia 2024)."""

from __future__ import annotations

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.declarations import Numbers, ShareScalar
from turnout.strategies.base import Strategy, per_client
from turnout.strategies.intervals import Intervals, Rates, as_rates, check_rates
from turnout.strategies.memory import Bits
from turnout.strategies.words import Words
from turnout.types import Cohort, Fleet, Move, Params, Reports, Scalar, View


class FedStaleState(eqx.Module):
    """What the server keeps."""

    words: Words  # h
    intervals: Intervals  # 1 / p, if that is not given


class FedStale(Strategy[FedStaleState]):
    """w ← w + η_t ( Σ_{k ∈ R_t} α_k u_k / p_k + β ( Σ_k α_k h_k - Σ_{k ∈ R_t} α_k h_k / p_k ) ), then h_k ← u_k.

    u_k = Δ_k / η_k is per unit of the rate of its start, h_k what client k sent last before this round, zero before its
    first, and Σ_k runs over all clients. p_k is how often a round has an update of client k: `rates`, or estimated by
    the mean interval, as FedAU does. β between 0 and 1 says how much the memory is trusted: with 0 it is inverse
    frequency alone, with 1 FedVARP by inverse frequency.

    If p is right both sums over h agree on average, so that every client counts by α_k whatever β is. The memory takes
    variance of partial participation out, and puts in what its age has made wrong: the paper takes a larger β where
    data differ much and clients come about equally often.

    Deviation: updates are remembered per unit of rate; at a constant rate it is the same.
    Deviation: the authors' code shrinks the model by a weight decay at the server, and again at the clients.

    Reference: A. Rodio and G. Neglia, FedStale: leveraging stale client updates in federated learning, ECAI 2024.
    """

    server_memory = "O(N · model)"
    consistent = "if participation is stationary, up to the cut-off, with work alike for all"
    references = ("rodio2024fedstale",)

    beta: ShareScalar = 0.5  # β
    rates: Rates = per_client(converter=as_rates)  # p, one number or one per client; estimated if not given
    cutoff: Annotated[Scalar, Numbers(1, infinite=True)] = 50.0  # longest interval, where p is estimated
    bits: Bits = eqx.field(static=True, default=32)  # of each number in the server's memory

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        check_rates(self.rates, fleet)

    def init(self, fleet: Fleet, params: Params) -> FedStaleState:
        return FedStaleState(Words.empty(fleet, params, bits=self.bits), Intervals.empty(fleet))

    def aggregate(
        self, state: FedStaleState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, FedStaleState]:
        cohort, beta = cohort.speaking(reports), jnp.asarray(self.beta, jnp.float32)
        interval = cohort.take(state.intervals.usual(self.rates))  # 1 / p
        weight = jnp.where(cohort.arrived, cohort.take(view.target) * cohort.copies * interval, 0.0)
        fresh = tree.rows_per_unit(reports.updates, cohort.lr)
        heard = state.words.hear(cohort, reports, fresh, cohort.take(view.importance), view.t)
        stale = tree.subtract(fresh, heard.change)  # h of those that came
        remembered = tree.subtract(state.words.mean(view), tree.weighted_sum(stale, weight))
        direction = tree.add(tree.weighted_sum(fresh, weight), tree.scale(remembered, beta))
        after = FedStaleState(heard.words, state.intervals.after(cohort.mask, self.cutoff))
        return Move(weight, tree.scale(direction, view.lr)), after
