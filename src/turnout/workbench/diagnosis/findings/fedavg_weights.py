"""Which clients plain averaging trains the model for, counted from the log itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int
from scipy.special import gammaln

from turnout.workbench.diagnosis.findings.recorded_time import ARRIVED, EVERY_SLOT, side_by_side
from turnout.workbench.diagnosis.findings.run_sums import PerClient, over_runs, per_slot, watched_slots
from turnout.workbench.diagnosis.findings.spells import spells_variance
from turnout.workbench.diagnosis.reading.log import Log

MAX_SPREADS = 2.5  # standard deviations that a distance may be above its mean by chance


@dataclass(frozen=True)
class FedAvgWeights:
    """Effective weights of FedAvg over the log, and how far they are from the target."""

    target: PerClient  # α
    plain: PerClient  # Ω if those present are averaged equally
    weighted: PerClient  # Ω if they are averaged by their targets
    plain_distance: float  # total variation ½ Σ |Ω - α|
    weighted_distance: float
    empty_slots: int  # slots without a participant, which train nothing
    ranked: Int[np.ndarray, " clients"]  # clients by |Ω - α| of the target-weighted average, the largest first
    basis: str = EVERY_SLOT  # which slots were counted
    by_chance: float = 0.0  # total variation that a log as long shows on average where all clients come equally often
    chance_spread: float = 0.0  # standard deviation of that

    @property
    def most_by_chance(self) -> float:
        """The largest distance that chance gives, but in one log of a hundred and fifty."""
        return self.by_chance + MAX_SPREADS * self.chance_spread

    @property
    def beyond_chance(self) -> float:
        """What is left of the distance of the target-weighted average without chance, which adds as noise does."""
        return float(np.sqrt(max(self.weighted_distance**2 - self.most_by_chance**2, 0.0)))

    @property
    def is_chance(self) -> bool:
        """Whether clients that come equally often would give such a distance in a log as long."""
        return self.weighted_distance <= self.most_by_chance


def weights(log: Log) -> FedAvgWeights:
    """Ω_k = mean of w_k 1_k(t) / Σ_j w_j 1_j(t) over slots that are not empty, for w = 1 and for w = α.

    1_k(t) tells whether the update of client k arrived, if the log says that only some were asked; else whether the
    client was present. Clients that were watched at different times are first put side by side.
    """
    target = target_of(log)
    nobody = per_slot(log.present, log.num_slots) == 0
    by_chance, chance_spread = distance_by_chance(log, target)
    if log.averaged is None:
        log, counted, basis = side_by_side(log)
    else:
        log, counted, basis = replace(log, present=log.averaged, watched=None), None, ARRIVED
    equal = np.full(log.num_clients, 1 / max(log.num_clients, 1))
    plain, weighted = mean_shares(log, equal, counted), mean_shares(log, target, counted)
    return FedAvgWeights(
        target=target,
        plain=plain,
        weighted=weighted,
        plain_distance=total_variation(plain, target),
        weighted_distance=total_variation(weighted, target),
        empty_slots=int(nobody.sum()),
        ranked=np.argsort(-np.abs(weighted - target), kind="stable"),
        basis=basis,
        by_chance=by_chance,
        chance_spread=chance_spread,
    )


def distance_by_chance(log: Log, target: PerClient) -> tuple[float, float]:
    """Mean and spread of ½ Σ |Ω - α| where all clients come equally often, with the fleet's rate, spells and length.

    A client's weight then errs as its number of participations does. Its spells say how many slots are worth one
    independent slot; the mean deviation of a binomial number is exact (de Moivre).
    """
    counted = log if log.averaged is None else replace(log, present=log.averaged, watched=None)
    slots, on = watched_slots(counted), counted.present.slots_of(log.num_clients)
    rate = float(on.sum() / max(int(slots.sum()), 1))
    if not 0 < rate < 1:
        return 0.0, 0.0
    own = np.divide(on, slots, out=np.zeros(len(on)), where=slots > 0)
    independent = float((slots * own * (1 - own)).sum())
    worth = max(1.0, float(spells_variance(counted).sum()) / independent) if independent > 0 else 1.0
    number = np.maximum(np.round(slots / worth), 1)
    share = np.floor(number * rate) + 1
    log_mean = (
        np.log(2 * share) + share * np.log(rate) + (number - share + 1) * np.log1p(-rate) + _log_choose(number, share)
    )
    deviation = target * np.exp(log_mean) / (number * rate)
    variance = target**2 * (1 - rate) / (number * rate) - deviation**2
    return float(deviation.sum() / 2), float(np.sqrt(np.maximum(variance, 0).sum()) / 2)


def _log_choose(n: PerClient, k: PerClient) -> PerClient:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)


def target_of(log: Log) -> PerClient:
    """How much each client should count: as the log states, else by its size, else all the same."""
    stated = log.target if log.target is not None else log.sizes
    if stated is None or not np.nansum(stated) > 0:
        return np.full(log.num_clients, 1 / max(log.num_clients, 1))
    stated = np.where(np.isfinite(stated), stated, np.nanmean(stated))  # clients without a size get the mean
    return stated / stated.sum()


def mean_shares(log: Log, weight: PerClient, counted: Bool[np.ndarray, " slots"] | None = None) -> PerClient:
    """Mean share of each client in a weighted average of those present, over slots that are not empty; sums to 1.

    `counted`: the slots that count, all if None.
    """
    total = per_slot(log.present, log.num_slots, weight)
    number = per_slot(log.present, log.num_slots)
    # Rounding of the running sums matters only where the total is almost zero.
    filled = (number > 0) & (total > 1e-12 * weight.max(initial=0.0))
    filled = filled if counted is None else filled & counted
    share = np.where(filled, 1 / np.where(filled, total, 1.0), 0.0)
    return weight * over_runs(log.present, share, log.num_clients) / max(int(filled.sum()), 1)


def total_variation(first: PerClient, second: PerClient) -> float:
    """½ Σ |p - q|; unlike in `theory`, one of them may be zero, since clients with a target may never have come."""
    return float(np.abs(first - second).sum() / 2)
