"""What became of each client: its weight, how the model serves it, how long it was not heard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.experiment.run import Outcome
from turnout.report.run.groups import Group, availability_of, groups_of, weight_shares
from turnout.simulator.attendance import Attendance
from turnout.statistics import evenly

MOST_CLIENTS = 400  # shown of a strategy; more would only hide each other
LEAST_CLIENTS = 50
IN_ALL = 4000  # dots of all strategies together


@dataclass(frozen=True)
class ClientWeights:
    """Weight over target of some clients, spread evenly from the least available to the most."""

    clients: np.ndarray
    available: np.ndarray  # share of the rounds
    target: np.ndarray
    ratio: np.ndarray  # mean over the seeds
    low: np.ndarray  # least over the seeds
    high: np.ndarray  # most


def client_names(outcome: Outcome, clients: np.ndarray) -> list[str]:
    """What these clients are called: their names where they have any, else their numbers."""
    return [str(k) if outcome.names is None else outcome.names[k] for k in clients.tolist()]


def by_availability(outcome: Outcome) -> np.ndarray:
    """Clients group by group, from the least available to the most, and within a group by π and λ."""
    pi, lam = availability_of(outcome), outcome.history.lam
    number = _group_of_each(groups_of(pi, lam), len(pi))
    return np.lexsort((np.zeros_like(pi) if lam is None else lam, pi, number))


def weights_of(outcome: Outcome, beside: int = 1) -> ClientWeights | None:
    """Of fewer clients where many strategies stand beside each other; nothing for a run that does not tell weights."""
    if "weight" not in outcome.history.clients:
        return None
    order = by_availability(outcome)
    order = order[outcome.target[order] > 0]
    most = max(LEAST_CLIENTS, min(MOST_CLIENTS, IN_ALL // beside))
    chosen = order[evenly(len(order), most)]
    ratio = weight_shares(outcome)[:, chosen] / outcome.target[chosen]
    ends = ratio.min(axis=0), ratio.max(axis=0)
    return ClientWeights(chosen, availability_of(outcome)[chosen], outcome.target[chosen], ratio.mean(axis=0), *ends)


def sorted_shares(values: np.ndarray, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Shares of clients, 0 to 1, and the value that so many are at or below."""
    known = np.sort(values[np.isfinite(values)])
    if not known.size:
        return np.zeros(0), np.zeros(0)
    shares = np.linspace(0, 1, min(points, max(2, known.size)))
    return shares, np.quantile(known, shares)


def client_means(outcome: Outcome, name: str) -> np.ndarray | None:
    """A column by client, mean over the seeds; nothing where it was not recorded."""
    if name not in outcome.history.clients:
        return None
    values = outcome.history.clients[name].astype(np.float64)
    return None if not np.isfinite(values).any() else values.mean(axis=0)


@dataclass(frozen=True)
class Seen:
    """An attendance with its clients in order, from the least available to the most."""

    attendance: Attendance
    states: np.ndarray  # (client, round)
    clients: np.ndarray
    pi: np.ndarray
    lam: np.ndarray | None
    edges: list[int]  # rows at which a group ends
    groups: list[str]


def seen_of(outcome: Outcome) -> Seen | None:
    """Nothing for a run that does not tell who was there."""
    attendance = outcome.history.attendance
    if attendance is None:
        return None
    place = np.full(outcome.target.shape[0], -1)
    place[attendance.clients] = np.arange(len(attendance.clients))
    order = by_availability(outcome)
    order = order[place[order] >= 0]
    lam = outcome.history.lam
    pi, lam = availability_of(outcome)[order], None if lam is None else lam[order]
    found = groups_of(pi, lam)
    edges = np.flatnonzero(np.diff(_group_of_each(found, len(order)))) + 1
    states = attendance.states.T[place[order]]
    return Seen(attendance, states, order, pi, lam, edges.tolist(), [group.name for group in found])


def _group_of_each(found: list[Group], count: int) -> np.ndarray:
    number = np.zeros(count, int)
    for place, group in enumerate(found):
        number[group.members] = place
    return number
