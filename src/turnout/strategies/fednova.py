"""FedNova: divide each update by the reach of its client's local work (Wang et al. 2020)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.declarations import ClientCount, PositiveScalar
from turnout.strategies.averaging import Normaliser, ask_to_average, averaged, check_normaliser
from turnout.strategies.base import Strategy
from turnout.types import Ask, Cohort, Move, Params, RandomKey, Reports, View, divide


class FedNova(Strategy[None]):
    """Direction τ_eff Σ_{k ∈ R_t} p_k Δ_k / ‖a_k‖₁, with ‖a_k‖₁ the reach that the clients report.

    The reach is the gradient mass of the local work: the number of steps for SGD, more with momentum, less with a
    proximal term, for any local optimizer that is linear in the gradients. p_k is α_k / Σ_R α_j (`received`), α_k
    (`all`), or 1/K for each of K draws by α (`draws`). τ_eff only sets the length of the step: Σ p_k ‖a_k‖₁ / Σ p_k
    over what arrived, or the number given.

    Takes the amount of local work out of the effective weights, not the availability: they are FedAvg's with the same
    divisor, without their ‖a_k‖₁. Where reach and arrival are correlated, a given τ_eff makes that exact.

    Deviation: with the divisors `all` and `draws` τ_eff is the mean reach of what arrived, or the step would shrink
    twice when few arrive; the paper has everyone arrive.
    Deviation: with a proximal term τ_eff is made of the true reach; the authors' code takes the number of steps there.
    Deviation: server momentum is the server optimizer's business.

    Reference: J. Wang, Q. Liu, H. Liang, G. Joshi and H. V. Poor, Tackling the Objective Inconsistency Problem in
    Heterogeneous Federated Optimization, NeurIPS 2020.
    """

    consistent = "if availability and links are alike for all"
    references = ("wang2020tackling",)

    cohort: ClientCount | None = None  # K, clients asked per round; everyone available if not given
    effective_steps: PositiveScalar | None = None  # τ_eff; the mean reach of what arrived if not given
    normaliser: Normaliser = eqx.field(static=True, default="received")

    def __check_init__(self) -> None:
        check_normaliser(self.normaliser, self.cohort)

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        return ask_to_average(view, key, self.cohort, self.normaliser), state

    def aggregate(self, state: None, params: Params, view: View, cohort: Cohort, reports: Reports) -> tuple[Move, None]:
        weight = jnp.where(cohort.arrived, averaged(cohort, self.normaliser), 0.0)  # p_k, for a reach of one
        if self.effective_steps is None:
            length = divide(jnp.sum(weight * reports.reach), jnp.sum(weight))
        else:
            length = jnp.asarray(self.effective_steps, weight.dtype)
        per_reach = tree.weighted_sum(reports.updates, divide(weight, reports.reach))
        return Move(weight, tree.scale(per_reach, length)), state
