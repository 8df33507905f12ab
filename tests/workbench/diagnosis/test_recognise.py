"""Features are named in order, and every one has its evidence."""

from dataclasses import replace

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.recognise import recognise

CLIENTS, SLOTS = 40, 600
DRAW = np.random.default_rng(5)
PI, LAM = DRAW.uniform(0.15, 0.85, CLIENTS), DRAW.uniform(0.2, 0.9, CLIENTS)


def test_day_and_company_together(chains):
    when = np.arange(SLOTS)[:, None] / 48
    cluster = np.arange(CLIENTS) % 8
    chance = PI[:8] + 0.7 * np.minimum(PI[:8], 1 - PI[:8]) * np.cos(2 * np.pi * when)
    found = examine(Log.from_matrix(chains(0, chance, LAM[:8], SLOTS)[cluster])).recognised
    assert found.features == ("diurnal", "clustered")
    assert found.kind == "diurnal"
    assert found.name == "diurnal + clustered"
    assert "cycle of 48 slots explains" in found.evidence["diurnal"]
    assert "100% of the clients move in 8 clusters of up to 5" in found.evidence["clustered"]


@pytest.mark.parametrize(("lam", "kind"), [(0.0, "bernoulli"), (0.7, "markov")])
def test_memory_or_none(chains, lam, kind):
    found = examine(Log.from_matrix(chains(1, PI, np.full(CLIENTS, lam), SLOTS))).recognised
    assert (found.kind, found.name, found.features) == (kind, kind, ())


def test_rests_rule_over_what_follows_from_them(chains):
    findings = examine(Log.from_matrix(chains(2, PI, LAM, SLOTS)))
    drifting = replace(findings.drift, fleet_p_value=1e-9, change_slot=300)
    rested = replace(findings.gaps, shortest=5, separation=4, log_p_value=-99.0)
    parts = (findings.rates, findings.clusters, findings.cycles)
    assert recognise(*parts, findings.gaps, drifting).kind == "drifting"
    both = recognise(*parts, rested, drifting)
    assert both.features == ("minimum_separation",)
    assert "no client came again within 4 slots" in both.evidence["minimum_separation"]
