"""Effective weights where work takes time, by the formulas of `turnout.theory`: close, but not exact."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from turnout import strategies
from turnout.availability.bernoulli import Bernoulli
from turnout.availability.markov import Markov
from turnout.paces import Buffered, Clocked, Pace, Rounds
from turnout.server.facts import Oracle
from turnout.simulator.trial import Trial
from turnout.theory.time.arrivals import UsedUpdates, effective_in_time
from turnout.theory.time.pace import pace_arrivals
from turnout.types import Fleet

MOST_CLIENTS = 2_000  # in larger fleets formulas take longer than an audit
REMEMBERED = (
    strategies.MIFA
    | strategies.FedVARP
    | strategies.FedLaAvg
    | strategies.CA2FL
    | strategies.LastWord
    | strategies.AREA
)
DISCOUNTED = strategies.FedBuff | strategies.FedAsync


def formula_in_time(trial: Trial, fleet: Fleet) -> np.ndarray | None:
    """Shares of the clients by formula; None where work takes no time, or where there is no formula.

    Clients come and go as two-state chains, uploads arrive, all do the same number of steps. Docs: docs/theory/time.md.
    """
    world, law = trial.world, trial.world.law()
    steps = world.compute.common
    regular = isinstance(world.availability, Bernoulli | Markov) and np.all(np.asarray(world.links.mean_success()) == 1)
    plain = trial.server.rest is None and not trial.local.lasting
    if not (trial.timed and regular and plain) or steps is None or law is None or fleet.num_clients > MOST_CLIENTS:
        return None
    pi, lam = (np.asarray(each, np.float64) for each in (law.pi, law.lam))
    table, leaving = np.ones((fleet.num_clients, 1)), "continue"
    if world.durations is not None:
        table, leaving = world.durations.law(np.full(fleet.num_clients, steps)), world.durations.leaving
    with suppress(ValueError):  # what has no formula is played alone
        exponent = _discount(trial)
        return _weights(trial, fleet, pi, pace_arrivals(trial.kept_pace, pi, lam, table, leaving, exponent))
    return None


def _discount(trial: Trial) -> float:
    """The exponent with which the strategy discounts old updates."""
    return float(trial.strategy.exponent) if isinstance(trial.strategy, DISCOUNTED) else 0.0


def _weights(trial: Trial, fleet: Fleet, pi: np.ndarray, arrivals: UsedUpdates) -> np.ndarray | None:
    """What the strategy makes of these arrivals."""
    strategy, target = trial.strategy, np.asarray(fleet.target, np.float64)
    if isinstance(strategy, DISCOUNTED):
        return effective_in_time(arrivals, target) if _is_plain(strategy, trial.kept_pace) else None
    if isinstance(strategy, REMEMBERED):
        return target / target.sum() if (arrivals.rates[target > 0] > 0).all() else None
    if isinstance(strategy, strategies.Unbiased) and isinstance(trial.facts, Oracle):
        return effective_in_time(arrivals, target / pi)
    if not isinstance(strategy, strategies.FedAvg) or strategy.cohort is not None or strategy.normaliser != "received":
        return None
    if isinstance(trial.kept_pace, Clocked):  # the number of answers in a step is not known
        return None
    return effective_in_time(arrivals, target, average=isinstance(trial.kept_pace, Rounds))


def _is_plain(strategy: strategies.FedBuff | strategies.FedAsync, pace: Pace) -> bool:
    """Whether every update counts by the power of its age alone, in steps that are divided by a constant."""
    if isinstance(strategy, strategies.FedBuff):
        return isinstance(pace, Buffered) and strategy.oldest is None
    return isinstance(pace, Buffered) and int(pace.size) == 1 and strategy.discount == "polynomial"
