"""Debiased FedAvg: divide each client's step by how often it has taken part (Sun et al. 2025)."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from turnout.declarations import PositiveScalar
from turnout.strategies.base import Strategy
from turnout.types import Ask, Cohort, Fleet, Move, Params, PerClient, RandomKey, Reports, Scalar, View, divide

Apply = Literal["step", "weight"]


class DebiasedState(eqx.Module):
    """Counts per client."""

    shares: PerClient  # n / B, sum over rounds of its share in the batch: 1 / B when it took part
    rounds: PerClient  # t, since the client is known


class Debiased(Strategy[DebiasedState]):
    """Plain average over the batch S_t, in which client k trains with its step times ν_k = α_k / λ_k.

    λ_k = n_k / ((t + 1) B) is how often the client has taken part, per place in a batch, the present time included.
    With equal targets ν_k = (t + 1) B / (n_k N), the paper's. As λ_k tends to the client's share of all places, the
    effective weights tend to λ_k ν_k = α_k, also where participation is correlated over rounds.

    `apply = "step"` scales the local steps, as the paper does; `"weight"` leaves them and scales the update on the
    server. The two agree to first order in the learning rate, and exactly for one step of SGD; with many or large steps
    they differ, since k steps of a scaled rate curve more. A client that first comes late has a ν of order t: as a
    step it may diverge, as a weight it moves the model far.

    Assumes stationary participation in which every client comes again and again. The paper also asks for batches of
    constant size B; here B may vary, see `batch`.

    Deviation: for a target that is not uniform α_k stands where the paper has 1 / N.
    Deviation: without a given B each participation counts 1 / |S_t|, so that the weights are right for batches of any
    size; for a constant size it is the paper's count. With B given, the server divides by B, whoever comes.
    Deviation: an upload that is lost is not counted as participation, once that is known.

    Reference: Z. Sun, Z. Zhang, Z. Xu, G. Joshi, P. Sharma and E. Wei, Debiasing Federated Learning with Correlated
    Client Participation, ICLR 2025.
    """

    server_memory = "O(N)"
    consistent = "if participation is stationary, with work alike for all"
    title = "Debiased FedAvg"
    references = ("sun2025debiasing",)

    batch: PositiveScalar | None = None  # B, clients per round; the size of the round's own batch if not given
    apply: Apply = eqx.field(static=True, default="step")

    def init(self, fleet: Fleet, params: Params) -> DebiasedState:
        zeros = jnp.zeros_like(fleet.importance)
        return DebiasedState(zeros, zeros)

    def select(self, state: DebiasedState, view: View, key: RandomKey) -> tuple[Ask, DebiasedState]:
        share = self._share(jnp.sum(view.available, dtype=jnp.float32))
        frequency = (state.shares + jnp.where(view.available, share, 0.0)) / (state.rounds + 1.0)
        factor = divide(view.target, frequency)
        ones = jnp.ones_like(factor)
        return (Ask.of(view.available, ones, factor) if self.apply == "step" else Ask.of(view.available, factor)), state

    def aggregate(
        self, state: DebiasedState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, DebiasedState]:
        share = self._share(jnp.sum(cohort.arrived, dtype=jnp.float32))
        after = DebiasedState(state.shares + jnp.where(cohort.mask, share, 0.0), state.rounds + 1.0)
        return Move(cohort.weight * share), after

    def _share(self, came: Scalar) -> Scalar:
        """1 / B, the share of one client in a batch; zero if nobody came."""
        return divide(jnp.ones(()), jnp.asarray(came if self.batch is None else self.batch, jnp.float32))
