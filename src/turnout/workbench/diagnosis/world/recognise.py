"""Which kind of world a log looks like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.workbench.diagnosis.findings.clusters import Clusters
from turnout.workbench.diagnosis.findings.cycles import Cycle, Cycles
from turnout.workbench.diagnosis.findings.drift import Drift
from turnout.workbench.diagnosis.findings.rates import Rates
from turnout.workbench.diagnosis.findings.rests import Gaps

MIN_CLUSTERED_SHARE = 0.1  # of the fleet, for the world to be called clustered
MAX_MEMORY_P_VALUE = 0.01  # of independence, for the fleet to have memory


@dataclass(frozen=True)
class Recognised:
    """The features that a log shows, and the evidence."""

    features: tuple[str, ...]  # of minimum_separation, drifting, diurnal, clustered; the dominant one first
    kind: str  # the first feature, or markov or bernoulli if there is none
    evidence: dict[str, str]  # a sentence for every feature tested

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
    return Recognised(
        features=features,
        kind=features[0] if features else plain,
        evidence={
            "minimum_separation": _of_gaps(gaps),
            "drifting": _of_drift(drift),
            "diurnal": _of_cycles(cycles),
            "clustered": _of_clusters(clusters),
            "markov": _of_rates(rates),
        },
    )


def _of_gaps(gaps: Gaps) -> str:
    if gaps.shortest is None:
        return "no client came twice, so nothing is known of rests"
    chance = "could be chance" if not gaps.separated else "would be chance with probability below one in a million"
    if gaps.shortest == 1:
        return "clients take part in consecutive slots, so there is no rest between participations"
    return f"no client came again within {gaps.shortest - 1} slots, which {chance}"


def _of_drift(drift: Drift) -> str:
    level = (
        f"the share of the fleet that is present went from {drift.level_before:.3f} to {drift.level_after:.3f} "
        f"at slot {drift.change_slot}"
        if drift.change_slot is not None
        else f"the share of the fleet that is present keeps its level (p = {drift.fleet_p_value:.2g})"
    )
    return (
        f"{level}; {int(drift.drifting.sum())} clients changed their rates "
        f"(p = {drift.pooled_p_value:.2g} that none did), "
        f"{int(drift.arrived_late.sum())} came late and {int(drift.vanished.sum())} left"
    )


def _of_cycles(cycles: Cycles) -> str:
    return "; ".join(map(_of_cycle, cycles.tested)) or "the log is too short to show a cycle"


def _of_cycle(cycle: Cycle) -> str:
    name = f"cycle of {cycle.period:.4g} slots" if cycle.name == "unnamed" else f"{cycle.name} cycle"
    verb = "explains" if cycle.found else "is not significant; it would explain"
    return f"a {name} {verb} {cycle.variance_share:.0%} of the fleet's ups and downs (p = {cycle.p_value:.2g})"


def _of_clusters(clusters: Clusters) -> str:
    if clusters.count == 0:
        return "no clients move together beyond the course of the whole fleet"
    return (
        f"{clusters.share:.0%} of the clients move in {clusters.count} clusters of up to {int(clusters.sizes[0])}, "
        f"with a mean correlation of {float(np.average(clusters.strength, weights=clusters.sizes)):.2f}"
    )


def _of_rates(rates: Rates) -> str:
    defined = np.isfinite(rates.pi)
    middle = float(np.median(rates.lam[defined])) if defined.any() else float("nan")
    return (
        f"{float(rates.persistent.mean()):.0%} of the clients have memory, the median correlation is {middle:.2f} "
        f"(p = {rates.fleet_p_value:.2g} that none has any)"
    )
