"""c-a-FedAvg: FedAvg that compensates for lost uploads (the baseline of that name in Weng et al. 2025)."""

from __future__ import annotations

from dataclasses import replace

from turnout.declarations import ClientCount
from turnout.strategies.base import Strategy
from turnout.strategies.sampling import ask_by_odds
from turnout.types import Ask, RandomKey, View, divide


class CAFedAvg(Strategy[None]):
    """Direction (1/K) Σ Δ_k / (1 - q_k) over those of K draws by ω that arrive; "c-a" is for communication-aware.

    Effective weight ω_k ‖a_k‖₁ with everybody available: the bias of the links is gone, that of unequal work stays.

    Deviation: draws are made among the available clients, by ω.
    """

    consistent = "if everybody is available and links are known, with work alike for all"
    title = "c-a-FedAvg"
    references = ("perazzone2022communication", "weng2025heterogeneity")
    needs = ("success",)

    cohort: ClientCount = 10  # K, draws per round

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        ask = ask_by_odds(view, key, self.cohort, view.target)
        return replace(ask, weight=divide(ask.weight, view.known.success)), state
