"""Everything together: on logs that are hardly logs, and on the worlds of the benchmark."""

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.fit import fit

DRAW = np.random.default_rng(0)
WATCHED = np.zeros((6, 300), bool)
WATCHED[0, :100] = WATCHED[1, 50:90] = WATCHED[1, 200:] = WATCHED[2] = WATCHED[3, 10:12] = WATCHED[5, 299] = True
SOME = DRAW.random((6, 300)) < 0.4
ONE = DRAW.random((1, 400)) < 0.3

ODD = {
    "one client, one slot": Log.from_matrix(np.ones((1, 1), bool)),
    "one client, never there": Log.from_matrix(np.zeros((1, 1), bool)),
    "two slots": Log.from_matrix(np.eye(2, dtype=bool)),
    "always there": Log.from_matrix(np.ones((3, 50), bool)),
    "never there": Log.from_matrix(np.zeros((3, 50), bool)),
    "one client": Log.from_matrix(ONE),
    "two alike": Log.from_matrix(np.tile(ONE, (2, 1))),
    "all alike": Log.from_matrix(np.tile(ONE, (30, 1))),
    "each seen once": Log.from_matrix(np.eye(100, dtype=bool)),
    "alternating": Log.from_matrix((np.arange(100) + np.arange(2)[:, None]) % 2 == 0),
    "windows": Log.from_matrix(SOME, watched=WATCHED),
    "windows and a clock": Log.from_matrix(SOME, watched=WATCHED, slot_seconds=600.0),
    "slots of a day": Log.from_matrix(SOME, slot_seconds=86400.0),
    "twelve slots": Log.from_matrix(SOME[:, :12]),
    "some always, some never": Log.from_matrix(np.vstack([np.ones_like(SOME), np.zeros_like(SOME), SOME])),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_logs_are_examined_and_fitted(name):
    log = ODD[name]
    found = examine(log)
    fitted = fit(log, found)
    assert fitted.process().num_clients == log.num_clients
    expected = {"two alike": "clustered", "all alike": "clustered", "alternating": "minimum_separation"}
    if name in expected:
        assert found.recognised.kind == expected[name]
    else:
        assert not found.recognised.features


def test_an_empty_log_is_refused():
    with pytest.raises(ValueError, match="no clients or no slots: there must be at least one participation"):
        examine(Log.from_matrix(np.zeros((0, 5), bool)))


def check(recognition, found, error, least_pi, least_lam):
    assert recognition.error_rate(found) <= error, recognition.report(found)
    for feature, share in recognition.false_positives(found).items():
        assert share <= 0.05, f"{feature} is seen where it is not: {recognition.report(found)}"
    held = recognition.coverage(found)["all"]
    assert held[0] >= least_pi
    assert held[1] >= least_lam


def test_worlds_are_recognised(recognition):
    check(recognition, recognition.recognise_all(range(3), sizes=((50, 500),)), 0.0, 0.9, 0.9)


@pytest.mark.slow
def test_worlds_are_recognised_over_fifty_seeds(recognition):
    check(recognition, recognition.recognise_all(range(50)), 0.02, 0.935, 0.935)
