"""F3AST: ask the available clients that were chosen too rarely so far (Ribero et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int

from turnout.declarations import ClientCount, Numbers, ShareScalar
from turnout.strategies.base import Strategy, listed
from turnout.strategies.sampling import check_cohort, largest
from turnout.types import Ask, Fleet, Params, PerClient, RandomKey, Round, Scalar, View, divide

Utility = Literal["uncorrelated", "correlated"]
Initial = Literal["target", "uniform"]
Budgets = Int[Array, " budgets"]
GivenBudgets = Annotated[Budgets | Sequence[int], Numbers(1, 2**31 - 1, whole=True)]

_TIE_BREAK = 1e-5  # relative noise on a utility: enough to break ties, too little for anything else


class F3AST(Strategy[PerClient]):
    """Direction Σ_{k ∈ S_t} (p_k / r_k) Δ_k, with r_k the rate at which k has been chosen so far.

    S_t are the M_t available clients of largest utility -∂H/∂r_k: p_k² / r_k² for H = Σ p_k² / r_k, the variance when
    clients come independently, or p_k / r_k² for H = Σ p_k / r_k, a bound however they depend. Then for all clients
    r_k ← (1 - β) r_k + β 1{k ∈ S_t}, and the weights use r after this step, as in the authors' code. The state is r.

    Effective weight p_k once r has settled at the true rates; until then, and for large β, only approximately.

    Deviation: ties are broken at random, not by the order of the clients.
    """

    server_memory = "O(N)"
    consistent = "once its rates have settled, for small β, with links and work alike for all"
    references = ("ribero2023federated",)

    cohort: ClientCount | GivenBudgets | Callable[[Round], Scalar] = eqx.field(
        converter=listed(Budgets), default=10
    )  # M, clients asked per round: a number, numbers that take turns, or a function of the round
    beta: ShareScalar = 0.01  # β, weight of the present round in r
    utility: Utility = eqx.field(static=True, default="uncorrelated")
    initial: Initial = eqx.field(static=True, default="target")  # r before round 0: p, or min(1, M / N)

    def init(self, fleet: Fleet, params: Params) -> PerClient:
        if self.initial == "target":
            return fleet.target
        share = self._budget(0).astype(jnp.float32) / fleet.num_members
        return jnp.full_like(fleet.target, jnp.minimum(share, 1.0))

    def check(self, fleet: Fleet) -> None:
        if not callable(self.cohort):
            for budget in jnp.ravel(jnp.asarray(self.cohort)):
                check_cohort(budget, fleet)

    def select(self, state: PerClient, view: View, key: RandomKey) -> tuple[Ask, PerClient]:
        noise = 1.0 + _TIE_BREAK * jr.uniform(key, state.shape)
        chosen = largest(self._urgency(state, view.target) * noise, view.available, self._budget(view.t), view.slots)
        beta = jnp.asarray(self.beta, state.dtype)
        rate = (1.0 - beta) * state + beta * chosen.astype(state.dtype)
        return Ask.of(chosen, divide(view.target, rate)), rate

    def _urgency(self, rate: PerClient, target: PerClient) -> PerClient:
        """Square root of the utility: the same order, and far from overflow."""
        floor = jnp.maximum(rate, jnp.finfo(rate.dtype).tiny)
        return (target if self.utility == "uncorrelated" else jnp.sqrt(target)) / floor

    def _budget(self, t: Round) -> Int[Array, ""]:
        if callable(self.cohort):
            return jnp.asarray(self.cohort(t), jnp.int32)
        budgets = jnp.ravel(jnp.asarray(self.cohort, jnp.int32))
        return budgets[jnp.asarray(t, jnp.int32) % budgets.shape[0]]
