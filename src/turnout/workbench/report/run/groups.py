"""Clients by how they come and go, and how much of the training each group got."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.workbench.experiment.run import Outcome
from turnout.workbench.report.run.compared import Points

CORRELATED = 0.5  # |λ| from which absences come in long spells


@dataclass(frozen=True)
class Group:
    """Clients of about the same availability."""

    availability: float
    correlated: bool | None  # None where it is not known
    members: np.ndarray

    @property
    def name(self) -> str:
        spells = {True: ", correlated", False: ", uncorrelated", None: ""}[self.correlated]
        return f"{share_in_words(self.availability)} available{spells}"


def share_in_words(availability: float) -> str:
    """The availability of a group: it is rounded, so a group at 0 comes, but seldom."""
    return f"{100 * availability:.0f} %" if availability else "less than 5 %"


def availability_of(outcome: Outcome) -> np.ndarray:
    """π where it is known, else the share of rounds in which a client was seen."""
    if outcome.history.pi is not None:
        return outcome.history.pi
    return outcome.history.clients["available"].mean(axis=0) / outcome.history.rounds


def groups_of(pi: np.ndarray, lam: np.ndarray | None) -> list[Group]:
    """Clients with the same π, to one digit, and the same kind of λ; from the least available to the most."""
    pi = np.round(pi, 1)
    spells = None if lam is None else np.abs(lam) >= CORRELATED
    mixed = spells is not None and bool(spells.any()) and not bool(spells.all())
    kinds: list[bool | None] = [False, True] if mixed else [None]
    groups = []
    for share in np.unique(pi):
        for kind in kinds:
            members = (pi == share) if kind is None else (pi == share) & (spells == kind)
            if members.any():
                groups.append(Group(float(share), kind, members))
    return groups


def weight_shares(weight: np.ndarray) -> np.ndarray:
    """Share of all weight given to each client, one row per seed; nothing where no weight was given."""
    given = weight.astype(np.float64)  # a sum over a million clients drifts in single precision
    total = given.sum(axis=-1, keepdims=True)
    return np.divide(given, total, out=np.zeros_like(given), where=total != 0)


@dataclass(frozen=True)
class Attention:
    """How much of the training a strategy gave to a group of clients, in percent of all weight."""

    label: str
    group: Group
    target: float  # what it should get
    share: float  # what it got, mean over the seeds
    low: float  # least and most over the seeds
    high: float


def attention(points: Points) -> list[Attention]:
    """What every group got, label by label."""
    found = []
    for outcome in (point.one_world for point in points.points):
        shares = weight_shares(outcome.history.clients["weight"])
        for group in groups_of(availability_of(outcome), outcome.history.lam):
            got, target = 100 * shares[:, group.members].sum(axis=1), float(outcome.target[group.members].sum())
            ends = float(got.min()), float(got.max())
            found.append(Attention(outcome.label, group, 100 * target, float(got.mean()), *ends))
    return found
