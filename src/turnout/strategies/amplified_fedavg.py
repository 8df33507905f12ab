"""Amplified FedAvg: FedAvg that goes further at the end of every cycle of availability (Wang & Ji 2022)."""

from __future__ import annotations

from turnout import tree
from turnout.declarations import ClientCount
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.sampling import ask_uniformly
from turnout.strategies.windows import Gain, WindowLength, WindowStart
from turnout.types import Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View


class AmplifiedFedAvg(Strategy[WindowStart]):
    """FedAvg's w ← w + Σ_{k ∈ R_t} α_k Δ_k / Σ_{k ∈ R_t} α_k, and after every P rounds w ← w̄ + γ (w - w̄).

    w̄ is the model at the start of the window of P rounds. If P is a cycle of availability, everybody comes in a window.
    A small local rate keeps the model from running after whoever is there just now, and γ makes up for the small steps.
    γ = 1 is FedAvg. What counts in a window are FedAvg's weights: who comes more often counts more.

    A window ends by the count of the server's steps, also with a round in which nothing arrives.

    Deviation: the target α_k, renormalised over what arrived, stands where the paper has 1 / N or given weights.

    Reference: S. Wang and M. Ji, A Unified Analysis of Federated Learning with Arbitrary Client Participation,
    NeurIPS 2022.
    """

    title = "Amplified FedAvg"
    consistent = "if all come equally often in every window, with links and work alike for all"
    references = ("wang2022unified",)
    plain_step = True

    window: WindowLength = 10  # P, rounds
    gain: Gain = 2.0  # γ
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given

    @property
    def moves_alone(self) -> bool:
        return True  # a window may end in a round in which nothing arrives

    def init(self, fleet: Fleet, params: Params) -> WindowStart:
        return WindowStart(params)

    def select(self, state: WindowStart, view: View, key: RandomKey) -> tuple[Ask, WindowStart]:
        return ask_uniformly(view, key, self.cohort), state

    def aggregate(
        self, state: WindowStart, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, WindowStart]:
        weight = averaged(cohort, "received")
        step = tree.weighted_sum(reports.updates, weight)
        direction, after = state.move(view.t, self.window, self.gain, params, step)
        return Move(weight, direction), after
