"""Which kind of world a log looks like."""

from __future__ import annotations

from dataclasses import dataclass

from turnout.workbench.diagnosis.findings.clusters import Clusters
from turnout.workbench.diagnosis.findings.cycles import Cycles
from turnout.workbench.diagnosis.findings.drift import Drift
from turnout.workbench.diagnosis.findings.rates import Rates
from turnout.workbench.diagnosis.findings.rests import Gaps

MIN_CLUSTERED_SHARE = 0.1  # of the fleet, for the world to be called clustered
MAX_MEMORY_P_VALUE = 0.01  # of independence, for the fleet to have memory


@dataclass(frozen=True)
class Recognised:
    """The features that a log shows."""

    features: tuple[str, ...]  # of minimum_separation, drifting, diurnal, clustered; the dominant one first
    kind: str  # the first feature, or markov or bernoulli if there is none

    @property
    def name(self) -> str:
        """All features in one name, as in `diurnal + clustered`."""
        return " + ".join(self.features) or self.kind


def recognise(rates: Rates, clusters: Clusters, cycles: Cycles, gaps: Gaps, drift: Drift) -> Recognised:
    """Name the world: rests come first, then drift, the day and clusters; without these, memory or none."""
    shows = {
        "minimum_separation": gaps.separated,
        "drifting": drift.found and not gaps.separated,
        "diurnal": bool(cycles.found) and not gaps.separated,
        "clustered": clusters.share >= MIN_CLUSTERED_SHARE,
    }
    features = tuple(name for name, shown in shows.items() if shown)
    plain = "markov" if rates.fleet_p_value < MAX_MEMORY_P_VALUE else "bernoulli"
    return Recognised(features, features[0] if features else plain)
