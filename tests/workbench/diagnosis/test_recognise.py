"""Features are named in order."""

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
    assert recognise(*parts, rested, drifting).features == ("minimum_separation",)
