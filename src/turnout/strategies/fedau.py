"""FedAU: weigh each client by its mean interval between participations (Wang & Ji 2024)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from turnout.declarations import ClientCount, Numbers
from turnout.strategies.base import Strategy
from turnout.strategies.intervals import Intervals
from turnout.strategies.sampling import ask_uniformly
from turnout.types import Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, Scalar, View


class FedAU(Strategy[Intervals]):
    """Direction Σ_{k ∈ R_t} α_k ω_k Δ_k, where ω_k is the mean of the client's closed intervals, 1 before the first.

    An interval is closed by a participation, or by the cut-off: an absence of `cutoff` rounds counts as one interval of
    that length, which bounds the weight of rare clients. The mean interval estimates 1 / (participation rate), so that
    α_k ω_k tends to α_k / π_k without knowing π. A client that is not asked, or whose upload is lost, counts as absent,
    and that is compensated too. The weight of a round never includes the interval that the round closes: it would
    depend on the participation that it weighs.

    Assumes participation that is independent over rounds for its guarantee; any stationary one for consistency. The
    cut-off brings a bias back where absences are often longer.

    Deviation: the target α_k stands where the paper has 1 / N.
    Deviation: the default cut-off is the 50 of the authors' instructions, not the 100000 of their code.

    Reference: S. Wang and M. Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
    Averaging, ICLR 2024.
    """

    server_memory = "O(N)"
    consistent = "if participation is stationary, up to the cut-off, with work alike for all"
    references = ("wang2024lightweight",)

    cutoff: Annotated[Scalar, Numbers(1, infinite=True)] = 50.0  # K, longest interval
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given

    def init(self, fleet: Fleet, params: Params) -> Intervals:
        return Intervals.empty(fleet)

    def select(self, state: Intervals, view: View, key: RandomKey) -> tuple[Ask, Intervals]:
        ask = ask_uniformly(view, key, self.cohort)
        return replace(ask, weight=ask.weight * state.mean), state

    def aggregate(
        self, state: Intervals, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, Intervals]:
        return Move(cohort.factors), state.after(cohort.mask, self.cutoff)
