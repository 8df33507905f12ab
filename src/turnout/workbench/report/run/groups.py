"""Clients by how they come and go, and how much of the training each group got."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

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
        return f"{readable_share(self.availability)} available{spells}"


def readable_share(availability: float) -> str:
    """The availability of a group: it is rounded, so a group at 0 comes, but seldom."""
    return f"{100 * availability:.0f} %" if availability else "less than 5 %"


def availability_of(outcome: Outcome) -> np.ndarray:
    """π where it is known, else the share of rounds in which a client was seen."""
    if outcome.history.pi is not None:
        return outcome.history.pi
    return outcome.history.clients["available"].mean(axis=0) / outcome.history.rounds


def groups(outcome: Outcome) -> list[Group]:
    """The groups of a run."""
    return groups_of(availability_of(outcome), outcome.history.lam)


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


def weight_shares(outcome: Outcome) -> np.ndarray:
    """Share of all weight given to each client, one row per seed; nothing where no weight was given."""
    weight = outcome.history.clients["weight"].astype(np.float64)
    total = weight.sum(axis=1, keepdims=True)
    return np.divide(weight, total, out=np.zeros_like(weight), where=total != 0)


def attention(run: Points) -> pl.DataFrame:
    """Share of the weight that each group got and should have got, in percent: one row per label and group."""
    rows = []
    for outcome in (point.one_world for point in run.points):
        shares = weight_shares(outcome)
        for place, group in enumerate(groups(outcome)):
            got = 100 * shares[:, group.members].sum(axis=1)
            row = {"label": outcome.label, "strategy": outcome.strategy, "group": group.name, "place": place}
            row |= {"availability": group.availability, "target": 100 * float(outcome.target[group.members].sum())}
            rows.append(row | {"share": float(got.mean()), "low": float(got.min()), "high": float(got.max())})
    return pl.DataFrame(rows)
