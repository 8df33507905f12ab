"""All findings of a log together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from turnout.declarations import checked
from turnout.workbench.diagnosis.findings.churn import churn, while_members
from turnout.workbench.diagnosis.findings.clusters import Clusters, clusters
from turnout.workbench.diagnosis.findings.cycles import Cycles, cycles
from turnout.workbench.diagnosis.findings.drift import Drift, drift
from turnout.workbench.diagnosis.findings.fedavg_weights import FedAvgWeights, weights
from turnout.workbench.diagnosis.findings.lost_uploads import LostUploads, lost_uploads
from turnout.workbench.diagnosis.findings.memory import Mixing, mixing
from turnout.workbench.diagnosis.findings.outages import Outages, leave_out, outages
from turnout.workbench.diagnosis.findings.rates import Rates, rates
from turnout.workbench.diagnosis.findings.rests import Gaps, gaps
from turnout.workbench.diagnosis.findings.shown import shown
from turnout.workbench.diagnosis.findings.work_times import WorkLengths, work_times
from turnout.workbench.diagnosis.reading.log import Log, Shows
from turnout.workbench.diagnosis.world.recognise import Recognised, recognise

MIN_INFLATION = 1.5  # of the variance, relative to chains, from which on intervals of π are widened


@dataclass(frozen=True)
class Findings:
    """What a log shows of its fleet."""

    rates: Rates
    clusters: Clusters
    cycles: Cycles
    gaps: Gaps
    drift: Drift
    mixing: Mixing
    weights: FedAvgWeights
    recognised: Recognised
    outages: Outages  # left out of all other findings
    lost_uploads: LostUploads | None  # None: the log does not say whose uploads arrived
    shows: Shows  # whether absent clients could not take part, or only did not
    work: WorkLengths | None = None  # None: the log does not say how long work takes


@checked
def examine(log: Log) -> Findings:
    """Run all estimates and tests."""
    if log.num_clients == 0 or log.num_slots == 0:
        raise ValueError("the log has no clients or no slots: there must be at least one participation")
    with ThreadPoolExecutor(1) as executor:  # what needs no other finding runs on another core meanwhile
        resting, weighing = executor.submit(gaps, log), executor.submit(weights, log)
        fleet_rates = rates(log)
        fleet_cycles = cycles(log, fleet_rates)
        interruptions = _outages(log, fleet_rates, fleet_cycles)
        if interruptions.found:
            log = leave_out(log, interruptions)
            fleet_rates = rates(log)
            fleet_cycles = cycles(log, fleet_rates)
        fleet_clusters = clusters(while_members(log, churn(log, fleet_cycles)), fleet_rates, fleet_cycles)
        fleet_drift = drift(log, fleet_rates, fleet_cycles, fleet_clusters.unit)
        fleet_gaps, fleet_weights = resting.result(), weighing.result()
    if fleet_drift.inflation > MIN_INFLATION:
        fleet_rates = rates(log, widening=float(np.sqrt(fleet_drift.inflation)))
    return Findings(
        rates=fleet_rates,
        clusters=fleet_clusters,
        cycles=fleet_cycles,
        gaps=fleet_gaps,
        drift=fleet_drift,
        mixing=mixing(log, fleet_rates),
        weights=fleet_weights,
        recognised=recognise(fleet_rates, fleet_clusters, fleet_cycles, fleet_gaps, fleet_drift),
        outages=interruptions,
        lost_uploads=lost_uploads(log, fleet_weights),
        shows=shown(log, fleet_gaps),
        work=work_times(log, fleet_rates),
    )


def _outages(log: Log, fleet_rates: Rates, fleet_cycles: Cycles) -> Outages:
    """Outages of the fleet; clients that move together, apart from the suspected stretches, count as one."""
    suspected = outages(log, fleet_rates, fleet_cycles, np.arange(log.num_clients))
    if not suspected.found:
        return suspected
    rest = leave_out(log, suspected)
    rest_rates = rates(rest)
    rest_cycles = cycles(rest, rest_rates)
    return outages(log, rest_rates, rest_cycles, clusters(rest, rest_rates, rest_cycles).unit)
