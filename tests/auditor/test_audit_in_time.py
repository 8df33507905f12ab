"""Audits where work takes time: shares as played and by formula, and ages."""

import numpy as np

import turnout
from turnout import World, durations
from turnout.availability import bernoulli
from turnout.strategies import MIFA, FedAvg
from turnout.workbench.report.audit import audit_table

QUICK, SLOW = 6, 4


def test_formula_and_play_agree_and_the_age_is_told():
    """Half of the answers close a round: the slow ones come late, and count in a later round."""
    world = World(bernoulli(QUICK + SLOW, 1.0), durations=durations.fixed(QUICK + SLOW, [0] * QUICK + [5] * SLOW))
    pace = turnout.Rounds(quorum=0.5, late="keep")
    audit = turnout.audit(world, {"fedavg": FedAvg(), "mifa": MIFA()}, rounds=600, pace=pace)
    fedavg, mifa = audit.entries
    assert fedavg.exact is None
    np.testing.assert_allclose(fedavg.formula, fedavg.weights, atol=5e-3)
    assert fedavg.formula[QUICK:].sum() < SLOW / (QUICK + SLOW) / 2
    np.testing.assert_allclose(mifa.weights, 0.1, atol=5e-3)
    np.testing.assert_allclose(mifa.formula, 0.1)
    np.testing.assert_array_equal(fedavg.duration, [1] * QUICK + [6] * SLOW)
    np.testing.assert_allclose(fedavg.ages.by_client, [0] * QUICK + [5] * SLOW, atol=0.1)
    assert fedavg.ages.median == 0
    np.testing.assert_allclose(fedavg.ages.mean, 0.5, atol=0.05)
    table = audit_table(audit)
    assert {"by formula", "age"} <= {column.title for column in table.columns}
    assert "600 ticks" in table.title
