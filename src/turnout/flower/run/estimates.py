"""What the server has learned of its clients, with intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from turnout.flower.server.driver import Driver
from turnout.server.facts import Online, OnlineState

_TAIL = 0.025  # of an interval of 95 %


@dataclass(frozen=True)
class Estimate:
    """Estimates of one client; intervals hold 95 % of the posterior, for as many independent rounds as there were."""

    client: str
    rounds: float  # in which its availability was certain, in usual rounds
    pi: float  # π̂
    pi_low: float
    pi_high: float
    lam: float  # λ̂
    lam_low: float
    lam_high: float
    success: float  # share of asked updates that arrive
    success_low: float
    success_high: float


def estimates_of(driver: Driver) -> list[Estimate]:
    """One estimate per client, in the order of the fleet; none if the server does not estimate."""
    columns = estimated_columns(driver)
    rows = zip(driver.directory.names, *columns.values(), strict=True) if columns else ()
    return [Estimate(name, *map(float, row)) for name, *row in rows]


def estimated_columns(driver: Driver) -> dict[str, np.ndarray]:
    """The fields of `Estimate` after the name, one entry per client in the order of the directory's names."""
    facts, state = driver.settings.facts, None if driver.state is None else driver.state.facts
    if not isinstance(facts, Online) or not isinstance(state, OnlineState):
        return {}
    return columns_of(facts, state, np.asarray(driver.places.taken))


def columns_of(facts: Online, state: OnlineState, places: np.ndarray) -> dict[str, np.ndarray]:
    """The same from the sums of these places."""
    sums = {name: np.asarray(getattr(state, name), np.float64)[places] for name in _SUMS}
    prior = {name: float(np.asarray(getattr(facts, name))) for name in _PRIORS}
    stay_on = _posterior(sums["on_on"], sums["from_on"], prior["prior_stay"], prior["prior_leave"])
    from_off = sums["transitions"] - sums["from_on"]
    stay_off = _posterior(sums["off_off"], from_off, prior["prior_stay"], prior["prior_leave"])
    lam = stay_on.mean() + stay_off.mean() - 1.0
    # Rounds that resemble the ones before tell less: n of them count as n (1 - λ) / (1 + λ).
    worth = np.clip((1.0 - np.maximum(lam, 0.0)) / (1.0 + np.maximum(lam, 0.0)), 0.0, 1.0)
    pi = (sums["on"] + prior["prior_on"]) / (sums["rounds"] + prior["prior_on"] + prior["prior_off"])
    on = _posterior(sums["on"] * worth, sums["rounds"] * worth, prior["prior_on"], prior["prior_off"])
    success = (sums["arrived"] + prior["prior_success"]) / (
        sums["asked"] + prior["prior_success"] + prior["prior_failure"]
    )
    link = _posterior(sums["arrived"], sums["asked"], 0.5, 0.5)  # the server's prior may be certain of perfect links
    spread = 1.96 * np.sqrt(stay_on.var() + stay_off.var())
    return {
        "rounds": sums["rounds"],
        "pi": pi,
        "pi_low": on.ppf(_TAIL),
        "pi_high": on.ppf(1 - _TAIL),
        "lam": lam,
        "lam_low": np.maximum(lam - spread, -1.0),
        "lam_high": np.minimum(lam + spread, 1.0),
        "success": success,
        "success_low": np.minimum(link.ppf(_TAIL), success),
        "success_high": np.maximum(link.ppf(1 - _TAIL), success),
    }


_SUMS = ("rounds", "on", "transitions", "from_on", "on_on", "off_off", "asked", "arrived")
_PRIORS = ("prior_on", "prior_off", "prior_stay", "prior_leave", "prior_success", "prior_failure")
_TINY = 1e-6  # a posterior needs something on both sides


def _posterior(hits: np.ndarray, trials: np.ndarray, prior_hits: float, prior_misses: float) -> Any:
    hits = np.clip(hits, 0.0, trials)
    return beta(np.maximum(hits + prior_hits, _TINY), np.maximum(trials - hits + prior_misses, _TINY))
