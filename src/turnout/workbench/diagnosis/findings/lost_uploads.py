"""Uploads that did not arrive: how many, whose, and what that does to the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from scipy.special import betaincinv
from scipy.stats import binom

from turnout.workbench.diagnosis.findings.fedavg_weights import FedAvgWeights, mean_shares, total_variation
from turnout.workbench.diagnosis.findings.rates import TAIL, discoveries
from turnout.workbench.diagnosis.findings.recorded_time import side_by_side
from turnout.workbench.diagnosis.findings.run_sums import PerClient
from turnout.workbench.diagnosis.reading.log import Log


@dataclass(frozen=True)
class LostUploads:
    """Success of the uploads of each client, with intervals."""

    sent: Int[np.ndarray, " clients"]  # uploads of which the log says whether they arrived
    success: PerClient  # share that arrived; the fleet's for clients that sent none
    low: PerClient  # of a 95 % credible interval, with Jeffreys' prior
    high: PerClient
    lost: float  # share of all uploads
    losing: Bool[np.ndarray, " clients"]  # lose more than the fleet does, at a false discovery rate of 5 %
    distance: float  # total variation of FedAvg's weights from the target, with the losses

    @property
    def found(self) -> bool:
        return self.lost > 0

    @property
    def worst(self) -> list[int]:
        """The clients that lose more than the fleet, the worst first."""
        clients = np.flatnonzero(self.losing)
        return clients[np.argsort(self.success[clients], kind="stable")].tolist()

    def lost_by(self, client: int) -> tuple[float, float, float]:
        """The share that a client loses, and the ends of its interval."""
        return 1 - float(self.success[client]), 1 - float(self.high[client]), 1 - float(self.low[client])


def lost_uploads(log: Log, weights: FedAvgWeights) -> LostUploads | None:
    """Who loses uploads; None if the log does not say.

    With losses a client of success s counts with s times its weight among those present.
    """
    if log.arrived is None or log.uploads is None or not log.uploads.sum():
        return None
    sent = log.uploads.astype(np.int64)
    came = np.rint(np.nan_to_num(log.arrived) * sent)
    fleet = float(came.sum() / sent.sum())
    low, high = interval_of_share(came, sent)
    success = np.where(sent > 0, came / np.maximum(sent, 1), fleet)
    return LostUploads(
        sent=sent,
        success=success,
        low=low,
        high=high,
        lost=1 - fleet,
        losing=discoveries(np.where(sent > 0, binom.cdf(came, sent, fleet), 1.0)),
        distance=weights.weighted_distance if log.averaged is not None else _distance(log, weights.target, success),
    )


def interval_of_share(hits: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95 % credible interval of a share, with Jeffreys' prior; all or nothing has an open end."""
    low, high = (betaincinv(hits + 0.5, trials - hits + 0.5, share) for share in (TAIL, 1 - TAIL))
    return np.where(hits == 0, 0.0, low), np.where(hits == trials, 1.0, high)


def _distance(log: Log, target: PerClient, success: PerClient) -> float:
    side, counted, _ = side_by_side(log)
    got = mean_shares(side, target * success, counted)
    return total_variation(got / max(float(got.sum()), 1e-300), target)
