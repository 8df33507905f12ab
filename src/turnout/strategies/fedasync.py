"""FedAsync: mix each model that comes back into the server's, less the older it is (Xie et al. 2019)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.strategies.base import Strategy
from turnout.strategies.staleness import Discount, check_not_negative, discounted
from turnout.types import Cohort, Fleet, Move, Params, Reports, Scalar, View, divide


class FedAsync(Strategy[None]):
    """w ← (1 - a_i) w + a_i w_i for each model w_i that arrives, a_i = min(1, mixing · s(τ_i) N α_i).

    τ_i is the age of the model from which client i started. s(τ) is 1 (`constant`), (1 + τ)^-exponent (`polynomial`),
    or 1 up to the age `within` and 1 / (slope (τ - within) + 1) beyond (`hinge`). Several arrivals in one tick have no
    order: together they mix in 1 - Π (1 - a_i), shared in proportion to a_i.

    A fast client comes more often, and whoever is at work will pull the model back to where it started: an update moves
    the model by much less than its mixing rate. Made for `Buffered(size=1)`.

    Deviation: N α_i stands where the paper has 1; with equal targets it is the same.
    Deviation: the proximal term of the paper's local problem is a setting of `Local`, and off by default.

    Reference: C. Xie, S. Koyejo and I. Gupta, Asynchronous Federated Optimization, 2019.
    """

    consistent = "if all clients come equally often, with links and work alike for all"
    references = ("xie2019asynchronous",)
    needs = ("starts",)
    plain_step = True

    mixing: Scalar = 0.6  # α of the paper
    discount: Discount = eqx.field(static=True, default="polynomial")  # s
    exponent: Scalar = 0.5  # of `polynomial`
    slope: Scalar = 10.0  # of `hinge`
    within: Scalar = 6.0  # of `hinge`

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        check_not_negative(exponent=self.exponent, slope=self.slope, within=self.within)
        if not 0 < float(self.mixing) <= 1:
            raise ValueError(f"mixing must be above 0 and at most 1, not {self.mixing}")

    def aggregate(self, state: None, params: Params, view: View, cohort: Cohort, reports: Reports) -> tuple[Move, None]:
        trust = discounted(self.discount, cohort.age, self.exponent, self.slope, self.within)
        rate = jnp.asarray(self.mixing, jnp.float32) * trust
        fair = cohort.take(view.target) * view.num_members * cohort.copies
        each = jnp.where(cohort.arrived, jnp.minimum(rate * fair, 1.0), 0.0)
        mixed_in = 1.0 - jnp.prod(1.0 - each)
        weight = each * divide(mixed_in, jnp.sum(each))
        models = tree.weighted_sum(tree.add(reports.starts, reports.updates), weight)
        return Move(weight, tree.subtract(models, tree.scale(params, jnp.sum(weight)))), state
