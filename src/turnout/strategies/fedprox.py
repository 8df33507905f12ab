"""FedProx: FedAvg whose clients are held near the model that they were sent (Li et al. 2020)."""

from __future__ import annotations

from turnout.declarations import ClientCount, NotNegativeScalar
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Ask, Cohort, Move, Params, RandomKey, Reports, Scalar, View


class Proximal(ClientSide[None]):
    """Steps by q + μ (z - x); keeps nothing and sends its update."""

    mu: Scalar

    @property
    def pull(self) -> Scalar:
        return self.mu


class FedProx(Strategy[None]):
    """w ← w + Σ_{k ∈ R_t} α_k Δ_k / Σ_{k ∈ R_t} α_k, where a local step moves by -η (q + μ (z - x)).

    Whatever a client has done until it sends is kept and counts in full, be it one step or twenty: partial work is not
    dropped. μ bounds how far a client can go, so that many steps count for little more than some.

    Effective weights are those of FedAvg, times the reach of proximal steps, (1 - (1 - η μ)^K) / (η μ) for K of them.
    At μ = 0 it is FedAvg; no one value suits all tasks.

    Deviation: the paper draws clients by size and averages equally. The authors' code draws uniformly and averages by
    size, and so does this.

    Reference: T. Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
    """

    consistent = "if availability, links and work are alike for all, with equal targets"
    references = ("li2020federated",)

    mu: NotNegativeScalar = 0.01  # μ
    cohort: ClientCount | None = None  # K, clients asked per round; everyone available if not given

    @property
    def client_side(self) -> Proximal:
        return Proximal(self.mu)

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        return ask_uniformly(view, key, self.cohort), state

    def aggregate(self, state: None, params: Params, view: View, cohort: Cohort, reports: Reports) -> tuple[Move, None]:
        return Move(averaged(cohort, "received")), state
