"""What the server has learned of its clients, with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from turnout.flower.run.chain_posterior import pi_intervals
from turnout.flower.server.driver import Driver
from turnout.server.facts import Online, OnlineState

_TAIL = 0.025  # of an interval of 95 %


@dataclass(frozen=True)
class Estimate:
    """Estimates of one client; intervals hold 95 % of the posterior, and are wide for clients with a long memory."""

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
    known = {name: np.asarray(values, np.float64)[places] for name, values in vars(facts.read(state, None)).items()}
    sums = {name: np.asarray(getattr(state, name), np.float64)[places] for name in _SUMS}
    moves = _moves(state, places)
    low, high = pi_intervals(moves, _starts(sums))
    prior = {name: float(np.asarray(getattr(facts, name))) for name in ("prior_stay", "prior_leave")}
    stays = [
        _posterior(stayed, stayed + left, prior["prior_stay"], prior["prior_leave"])
        for stayed, left in ((moves[:, 3], moves[:, 2]), (moves[:, 0], moves[:, 1]))
    ]
    changes = moves[:, 1] + moves[:, 2]
    few = 1.0 + 0.5 / (1.0 + changes)  # of few changes λ is less sure than its posterior's variance says
    spread = 1.96 * few * np.sqrt(sum(stay.var() for stay in stays))
    link = _posterior(sums["arrived"], sums["asked"], 0.5, 0.5)  # the server's prior may be certain of perfect links
    pi, lam, success = known["pi"], known["lam"], known["success"]
    return {
        "rounds": np.asarray(state.presence().rounds, np.float64)[places],
        "pi": pi,
        "pi_low": np.minimum(low, pi),
        "pi_high": np.maximum(high, pi),
        "lam": lam,
        "lam_low": np.maximum(lam - spread, -1.0),
        "lam_high": np.minimum(lam + spread, 1.0),
        "success": success,
        "success_low": np.minimum(link.ppf(_TAIL), success),
        "success_high": np.maximum(link.ppf(1 - _TAIL), success),
    }


_SUMS = ("rounds", "on", "transitions", "on_on", "off_off", "from_on", "asked", "arrived")
_TINY = 1e-6  # a posterior needs something on both sides


def _moves(state: OnlineState, places: np.ndarray) -> np.ndarray:
    """Transitions off-off, off-on, on-off and on-on, one row per client.

    Those in doubt count by what is likely, and by how much is known of that: a listed client that is seldom asked tells
    little by being listed.
    """
    seen = state.presence()
    named = ("from_off", "off_off", "from_on", "on_on")
    from_off, off_off, from_on, on_on = (
        np.maximum(np.asarray(getattr(seen, name), np.float64)[places], 0.0) for name in named
    )
    worth_off, worth_on = (_worth_of_doubts(state, group, places) for group in (2, 1))
    off_off, on_on = np.minimum(off_off, from_off), np.minimum(on_on, from_on)
    columns = [off_off * worth_off, (from_off - off_off) * worth_off, (from_on - on_on) * worth_on, on_on * worth_on]
    return np.stack(columns, axis=1)


def _worth_of_doubts(state: OnlineState, group: int, places: np.ndarray) -> np.ndarray:
    """How many sure rounds a round is worth, where listed clients are asked only now and then.

    The share of rounds on is the share q listed times the share h of these that would answer. The first is known from
    all n rounds, the second from those m with a question, so its variance is h² q (1 - q) / n + q² h (1 - h) / m.
    """
    listing = state.listing
    if listing is None:
        return np.ones(len(places))
    answered, silent, doubted = (
        np.asarray(part, np.float64)[places, group] for part in (listing.answered, listing.silent, listing.doubted)
    )
    seen = state.presence()
    rounds = np.asarray((seen.rounds, seen.from_on, seen.from_off)[group], np.float64)[places]
    rounds, asked = np.maximum(rounds, 1.0), answered + silent
    h = (answered + 0.25) / (asked + 0.5)
    q = (np.clip(asked + doubted, 0.0, rounds) + 0.25) / (rounds + 0.5)
    variance = h**2 * q * (1 - q) / rounds + q**2 * h * (1 - h) / np.maximum(asked, 0.5)
    worth = h * q * (1 - h * q) / variance / rounds
    return np.where(doubted > 0, np.clip(worth, 0.0, 1.0), 1.0)


def _starts(sums: Mapping[str, np.ndarray]) -> np.ndarray:
    """Share of rounds on among those that follow no other sure one: the state in which a client was met."""
    off_on = sums["transitions"] - sums["from_on"] - sums["off_off"]
    met = np.maximum(sums["rounds"] - sums["transitions"], 0.0)
    on = sums["on"] - sums["on_on"] - off_on
    return np.where(met > 0, np.clip(on / np.maximum(met, 1e-9), 0.0, 1.0), 0.5)


def _posterior(hits: np.ndarray, trials: np.ndarray, prior_hits: float, prior_misses: float) -> Any:
    hits = np.clip(hits, 0.0, trials)
    return beta(np.maximum(hits + prior_hits, _TINY), np.maximum(trials - hits + prior_misses, _TINY))
