"""FedACS: draw clients so that lossy links and unequal local work cancel out (Weng et al. 2025)."""

from __future__ import annotations

from turnout.declarations import ClientCount
from turnout.strategies.base import Strategy
from turnout.strategies.sampling import ask_by_odds
from turnout.types import Ask, RandomKey, View, divide


class FedACS(Strategy[None]):
    """Direction (1/K) Σ Δ over those of K draws that arrive, drawn with p_k ∝ ω_k / ((1 - q_k) ‖a_k‖₁).

    A draw of k arrives with probability 1 - q_k and carries ‖a_k‖₁ gradients, so the effective weight is ω_k, in every
    round and also where q and ‖a‖₁ change: only the length of the step varies. Assumes that everybody is available.

    Deviation: draws are made among the available clients, and p is normalised over them.
    """

    consistent = "if everybody is available and links and reach are known"
    references = ("weng2025heterogeneity",)
    needs = ("success", "reach")

    cohort: ClientCount = 10  # K, draws per round

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        odds = divide(view.target, view.known.success * view.known.reach)
        return ask_by_odds(view, key, self.cohort, odds), state
