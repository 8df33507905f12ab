"""FedStaleAsync: fresh updates by inverse frequency, and the last ones of all clients in part (public code)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.strategies.base import Strategy, per_client
from turnout.strategies.intervals import Intervals, Rates, as_rates, check_cutoff, check_rates
from turnout.strategies.memory import rows_of_zeros, sum_rows
from turnout.strategies.staleness import check_not_negative, hinge
from turnout.types import Cohort, Fleet, Mask, Move, Params, PerClient, PerSlot, Reports, Scalar, View


class Remembered(eqx.Module):
    """What each client said last, and how it has counted since."""

    rows: Params  # h, one update per client, zero before its first
    heard: Mask
    version: PerClient  # that the client was sent
    counted: PerClient  # sum of b over the steps since the client was last heard
    steps: PerClient  # these steps
    intervals: Intervals  # 1 / p, if that is not given


class FedStaleAsync(Strategy[Remembered]):
    """w ← w + η_t Σ_k α_k ( [k arrived] a(τ_k) u_k / p_k + (b_k - [k arrived] b̄_k / p_k) h_k ), then h_k ← u_k.

    u_k = Δ_k / η_k is per unit of the rate of its start, and h_k what client k sent last, zero before its first. p_k is
    how often a step has an update of client k: given, or estimated by the mean interval, as FedAU does. a(τ) counts a
    fresh update of age τ, and b_k = b(age of h_k) a remembered one; b̄_k is the mean of b_k over the steps since the
    client was last heard, this one included, so that over an interval as long as usual memories cancel. Both are a
    constant up to the age `within` and fall as a hinge beyond.

    With constants 1 and β it is FedStale; with 1 and 0 inverse frequency alone; with 1 and 1 a CA²FL that does not
    favour those that come often. A step in which nothing arrives leaves the model.

    Deviation: α_k is a share of all clients, where the public code divides by those seen so far.
    Deviation: updates are remembered per unit of rate; at a constant rate it is the same.
    Deviation: of the code's many ways to know p, two are here: given, and FedAU's intervals, with its cut-off.

    Reference: the paper is not public; the rule is that of its code. With constants: A. Rodio and G. Neglia, FedStale:
    leveraging stale client updates in federated learning, ECAI 2024.
    """

    server_memory = "O(N · model)"
    consistent = "if participation is stationary, up to the cut-off, with work alike for all"
    references = ("rodio2024fedstale",)

    fresh: Scalar = 1.0  # a(0)
    stale: Scalar = 0.5  # b(0), β of FedStale
    fresh_slope: Scalar = 0.0  # of a, beyond `within`
    stale_slope: Scalar = 0.0  # of b
    within: Scalar = 0.0  # age up to which a and b do not fall
    rates: Rates = per_client(converter=as_rates)  # p, one number or one per client
    cutoff: Scalar = 50.0  # longest interval, where p is estimated

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        check_cutoff(self.cutoff)
        check_not_negative(fresh=self.fresh, stale=self.stale, within=self.within)
        check_not_negative(fresh_slope=self.fresh_slope, stale_slope=self.stale_slope)
        check_rates(self.rates, fleet)

    def init(self, fleet: Fleet, params: Params) -> Remembered:
        zeros = jnp.zeros_like(fleet.importance)
        nobody = jnp.zeros(zeros.shape, bool)
        return Remembered(rows_of_zeros(fleet, params), nobody, zeros, zeros, zeros, Intervals.empty(fleet))

    def aggregate(
        self, state: Remembered, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Remembered]:
        cohort = cohort.speaking(reports)
        t = jnp.asarray(view.t, jnp.float32)
        counts = jnp.asarray(self.stale, jnp.float32) * hinge(t - state.version, self.stale_slope, self.within)  # b
        counted, steps = state.counted + counts, state.steps + 1.0
        interval = cohort.take(state.intervals.usual(self.rates))  # 1 / p
        fair = jnp.where(cohort.arrived, cohort.take(view.target) * cohort.copies, 0.0)
        fresh = jnp.asarray(self.fresh, jnp.float32) * hinge(cohort.age, self.fresh_slope, self.within)  # a
        weight: PerSlot = fair * fresh * interval
        said = tree.rows_per_unit(reports.updates, cohort.lr)
        remembered = sum_rows(state.rows, jnp.where(state.heard, view.target * counts, 0.0))
        old, rows = cohort.swap(state.rows, said)
        twice = fair * interval * cohort.take(counted / steps)  # b̄ / p
        direction = tree.add(remembered, tree.weighted_sum(said, weight))
        direction = tree.subtract(direction, tree.weighted_sum(old, twice))
        after = Remembered(
            rows=rows,
            heard=state.heard | cohort.mask,
            version=jnp.where(cohort.mask, t - cohort.put(cohort.age), state.version),
            counted=jnp.where(cohort.mask, 0.0, counted),
            steps=jnp.where(cohort.mask, 0.0, steps),
            intervals=state.intervals.after(cohort.mask, self.cutoff),
        )
        return Move(weight, tree.scale(direction, view.lr)), after
