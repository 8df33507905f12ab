"""Unbiased: weigh every available client by the inverse of its availability (Rodio et al. 2023)."""

from __future__ import annotations

from turnout.strategies.base import Strategy
from turnout.types import Ask, RandomKey, View, divide


class Unbiased(Strategy[None]):
    """Direction Σ_{k ∈ A_t} (α_k / π_k) Δ_k, not normalised: the sum of the weights is one on average only.

    Consistent whenever π is right: effective weight π_k · α_k / π_k = α_k. The price is variance, largest for rarely
    available clients whose absences are correlated.
    """

    needs = ("pi",)
    consistent = "if π is right, with links and work alike for all"
    references = ("rodio2023federated",)

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        return Ask.of(view.available, divide(view.target, view.known.pi)), state
