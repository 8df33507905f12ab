"""All that is found in a log, gathered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from turnout.diagnosis.findings.clusters import Clusters, clusters
from turnout.diagnosis.findings.cycles import Cycles, cycles
from turnout.diagnosis.findings.drift import Drift, drift
from turnout.diagnosis.findings.fedavg_weights import FedAvgWeights, weights
from turnout.diagnosis.findings.memory import Mixing, mixing
from turnout.diagnosis.findings.rates import Rates, rates
from turnout.diagnosis.findings.rests import Gaps, gaps
from turnout.diagnosis.reading.log import Log
from turnout.diagnosis.world.recognise import Recognised, recognise

DISPERSED = 1.5  # times the variance of chains, from which on intervals of π are widened


@dataclass(frozen=True)
class Findings:
    """What a log tells of its fleet."""

    rates: Rates
    clusters: Clusters
    cycles: Cycles
    gaps: Gaps
    drift: Drift
    mixing: Mixing
    weights: FedAvgWeights
    recognised: Recognised


def examine(log: Log) -> Findings:
    """Estimate and test everything that is known to be looked for."""
    if log.num_clients == 0 or log.num_slots == 0:
        raise ValueError("the log has no clients or no slots: there must be at least one participation")
    with ThreadPoolExecutor(1) as beside:  # what needs nothing else is counted on another core meanwhile
        resting, weighing = beside.submit(gaps, log), beside.submit(weights, log)
        of_clients = rates(log)
        rhythm = cycles(log, of_clients)
        company = clusters(log, of_clients, rhythm)
        change = drift(log, of_clients, rhythm, company.unit)
        rest, weight = resting.result(), weighing.result()
    if change.inflation > DISPERSED:
        of_clients = rates(log, widening=float(np.sqrt(change.inflation)))
    return Findings(
        rates=of_clients,
        clusters=company,
        cycles=rhythm,
        gaps=rest,
        drift=change,
        mixing=mixing(log, of_clients),
        weights=weight,
        recognised=recognise(of_clients, company, rhythm, rest, change),
    )
