"""What a strategy scored in every world, beside the stored scores of all others: same worlds, same seeds, so paired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnout.metrics import BYTES_UPLOADED
from turnout.statistics import Interval
from turnout.workbench.reproduction.claim import Claim
from turnout.workbench.reproduction.curve_table import Measured
from turnout.workbench.reproduction.measures import measure_values
from turnout.workbench.reproduction.stored import Panel

Table = dict[str, Any]
DIGITS = 6  # of a stored score


@dataclass(frozen=True)
class Scored:
    """One strategy: how it is written, what the server holds for it, and its scores by world."""

    label: str
    entry: Table  # of an experiment
    server_memory: str
    scores: dict[str, np.ndarray]  # one per test seed
    bytes_uploaded: dict[str, float]  # per round
    rates: dict[str, Table]  # that were chosen
    skipped: dict[str, str]  # worlds that could not run, and why

    @classmethod
    def of(cls, entry: Table, claim: Claim, score: Table, panels: dict[str, Panel], skipped: dict[str, str]) -> Scored:
        """The record of a strategy that was run in these panels; a score that is no number counts as 0."""
        measured = Measured([curve for panel in panels.values() for curve in panel.curves])
        (own,) = next(iter(claim.panels.values())).strategies
        values = {world: measure_values(measured, score, world, own.label) for world in panels}
        uploaded = {}
        for world in panels:
            curve = measured.curve(world, own.label, BYTES_UPLOADED)
            uploaded[world] = float(curve.values[:, -1].mean() / curve.x[-1])
        return cls(
            label=claim.name,
            entry=entry,
            server_memory=str(getattr(own.strategy.builder, "server_memory", "")),
            scores={world: np.nan_to_num(np.round(of_seeds, DIGITS)) for world, of_seeds in values.items()},
            bytes_uploaded=uploaded,
            rates={world: next(iter((panel.chosen or {}).values()), {}) for world, panel in panels.items()},
            skipped=skipped,
        )

    @classmethod
    def parse(cls, label: str, table: Mapping[str, Any]) -> Scored:
        """A record as it was stored."""
        worlds: dict[str, Any] = table["worlds"]
        return cls(
            label=label,
            entry=table["strategy"],
            server_memory=table["server_memory"],
            scores={world: np.asarray(told["scores"], np.float64) for world, told in worlds.items()},
            bytes_uploaded={world: told["bytes_uploaded"] for world, told in worlds.items()},
            rates={world: told["rates"] for world, told in worlds.items()},
            skipped=table.get("skipped", {}),
        )

    def table(self) -> Table:
        """For JSON."""
        worlds = {
            world: {
                "scores": [float(f"{value:.{DIGITS}g}") for value in of_seeds.tolist()],
                "bytes_uploaded": float(f"{self.bytes_uploaded[world]:.{DIGITS}g}"),
                "rates": self.rates[world],
            }
            for world, of_seeds in self.scores.items()
        }
        skipped = {"skipped": self.skipped} if self.skipped else {}
        return {"strategy": self.entry, "server_memory": self.server_memory, "worlds": worlds, **skipped}


@dataclass(frozen=True)
class Ranked:
    """Records side by side, the best by its mean rank first."""

    worlds: tuple[str, ...]
    records: tuple[Scored, ...]

    @classmethod
    def of(cls, worlds: list[str], records: list[Scored]) -> Ranked:
        """Records in the worlds in which one of them was run."""
        shown = tuple(world for world in worlds if any(world in record.scores for record in records))
        unsorted = cls(shown, tuple(records))
        ranks = [unsorted.mean_rank(record) for record in records]
        order = sorted(range(len(records)), key=lambda place: ranks[place])
        return cls(shown, tuple(records[place] for place in order))

    def rank(self, record: Scored, world: str) -> int:
        """The place of a record in a world by its mean, from 1."""
        own = record.scores[world].mean()
        return 1 + sum(bool(other.scores[world].mean() > own) for other in self.records if world in other.scores)

    def mean_rank(self, record: Scored) -> float:
        """The mean place over the worlds in which it was run."""
        return float(np.mean([self.rank(record, world) for world in self.worlds if world in record.scores]))


def lead(record: Scored, other: Scored, world: str) -> Interval | None:
    """The lead of one record over another, paired by seed; None where one of them was not run."""
    if world not in record.scores or world not in other.scores:
        return None
    return Interval.of(record.scores[world] - other.scores[world])
