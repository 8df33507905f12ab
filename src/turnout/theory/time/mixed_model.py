"""FedAsync: the server mixes each update into its model, w ← (1 − a) w + a (start + Δ) with a = mixing · s(age)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.declarations import Share, checked
from turnout.declarations.arrays import refuse
from turnout.theory.time.arrivals import BufferedArrivals


@dataclass(frozen=True)
class MixedModel:
    """What mixing makes of arrivals."""

    weights: np.ndarray  # effective weights, the mean share of each client in the model of the day
    mixing: float  # mean a
    held: float  # 2 / a − 1: so many updates the model consists of, if arrivals were independent
    spread: np.ndarray  # of a client's share from day to day, under the same condition: an upper bound
    damping: float  # an update moves the model by this times a in the end


@checked
def fedasync_model(arrivals: BufferedArrivals, mixing: Share) -> MixedModel:
    """How FedAsync weighs and damps the updates that come; the arrivals are those of a buffer of one.

    Everyone at work will pull the model back to where it started. Since w + Σ_{at work} a_j start_j changes only by
    a_i Δ_i, an update moves the model by a_i/(1 + Σ_{at work} a_j) in the end, where Σ_{at work} a_j has the mean
    Σ_k rate_k E[a W_k]. Several arrivals in a tick share one mix, 1 − Π(1 − a_i), which makes every a_i smaller by one
    factor on average. Weights are those of FedBuff with a buffer of one, rate_k E s(age_k).

    Args:
        arrivals: What `buffered_arrivals(…, size=1, exponent=…)` returns.
        mixing: Share of an update of age 0 in the new model.

    """
    refuse(np.array([not 0 < mixing <= 1]), lambda _: f"mixing = {mixing:g}", "must be above 0 and at most 1")
    rates, share = arrivals.rates, mixing * arrivals.discount
    total = float(rates.sum())
    mean, square = float(rates @ share) / total, float(rates @ share**2) / total
    together = total * mean  # mean of Σ a_i in a tick; about a binomial number of arrivals
    sources = max(arrivals.at_work, total)
    shared = (1 - (1 - together / sources) ** sources) / together
    weights = rates * share / float(rates @ share)
    return MixedModel(
        weights=weights,
        mixing=mean,
        held=2 / mean - 1,
        spread=np.sqrt(square / (2 * mean - square) * weights * (1 - weights)),
        damping=shared / (1 + shared * float(rates @ (share * arrivals.work))),
    )
