"""FedAvg under partial availability: average the updates that arrive (McMahan et al. 2017)."""

from __future__ import annotations

import equinox as eqx

from turnout.declarations import ClientCount
from turnout.strategies.averaging import Normaliser, ask_to_average, averaged, check_normaliser
from turnout.strategies.base import Strategy
from turnout.types import Ask, Cohort, Move, Params, RandomKey, Reports, View


class FedAvg(Strategy[None]):
    """Average of the updates that arrive, by one of the three usual normalisers.

    - `received`: Σ_R α_k Δ_k / Σ_R α_k, the usual code: the step keeps its length, whoever comes.
    - `all`: Σ_R α_k Δ_k, a fixed divisor over the whole fleet: the step shrinks with the cohort.
    - `draws`: (1/K) Σ Δ over K draws with replacement by α; what is lost counts as zero.

    None of them is consistent when availability differs between clients: the model favours those that come most. The
    effective weights are E[α_k 1_k / Σ_j α_j 1_j], α_k π_k, and α_k (1 - q_k) ‖a_k‖₁ with everybody available.
    """

    consistent = "if availability, links and work are alike for all, for 'received' with equal targets"
    references = ("mcmahan2017communication",)

    cohort: ClientCount | None = None  # K, clients asked per round; everyone available if not given
    normaliser: Normaliser = eqx.field(static=True, default="received")

    def __check_init__(self) -> None:
        check_normaliser(self.normaliser, self.cohort)

    def select(self, state: None, view: View, key: RandomKey) -> tuple[Ask, None]:
        return ask_to_average(view, key, self.cohort, self.normaliser), state

    def aggregate(self, state: None, params: Params, view: View, cohort: Cohort, reports: Reports) -> tuple[Move, None]:
        return Move(averaged(cohort, self.normaliser)), state
