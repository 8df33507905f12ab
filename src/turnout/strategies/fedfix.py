"""FedFix: step by the clock, and weigh each client by the beats that it needs (Fraboni et al. 2023)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from turnout.declarations import Numbers
from turnout.strategies.base import Strategy, listed, per_client
from turnout.types import Cohort, Fleet, Move, Params, PerClient, Reports, View

Beats = Annotated[PerClient, Numbers(1)]


class FedFix(Strategy[None]):
    """w ← w + Σ_i α_i b_i Δ_i over all that have arrived since the last beat, b_i = ⌈duration of client i / Δt⌉.

    Pace `Clocked(every=Δt)`: a client that needs b beats is in one step of b, so that it counts by α_i on average. The
    paper has durations known; without `beats` each update is multiplied by its own number, its age and one.

    Right where everybody is always there. The time for which an idle client is away is not in its duration, so clients
    that are away more count less. A beat that nobody meets leaves the model.

    Reference: Y. Fraboni, R. Vidal, L. Kameni and M. Lorenzi, A General Theory for Federated Optimization with
    Asynchronous and Heterogeneous Clients Updates, JMLR 2023.
    """

    consistent = "if everybody is always there, with links and work alike for all"
    references = ("fraboni2023general",)

    beats: Beats | None = per_client(converter=listed(Beats))  # of each client's work; the update's own if not given

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        if self.beats is None:
            return
        beats = np.asarray(self.beats)
        if beats.shape != (fleet.num_clients,):
            raise ValueError(f"beats must be {fleet.num_clients} numbers, one per client, not shape {beats.shape}")

    def aggregate(self, state: None, params: Params, view: View, cohort: Cohort, reports: Reports) -> tuple[Move, None]:
        beats = cohort.age + 1.0 if self.beats is None else cohort.take(self.beats)
        return Move(cohort.factors * beats), state
