"""Every strategy's stored run: a change that moves one is a change of results, and must say so."""

import json

import numpy as np
import pytest
from golden import STORED, golden_runs, numbers

from every_strategy import ONE_EACH

RUNS = golden_runs()
FURTHER = sorted(set(RUNS) - set(ONE_EACH))


@pytest.mark.parametrize("name", [*ONE_EACH, *(pytest.param(name, marks=pytest.mark.variant) for name in FURTHER)])
def test_golden(name):
    stored = json.loads(STORED.read_text())[name]
    for what, values in numbers(RUNS[name]()).items():
        np.testing.assert_allclose(values, stored[what], rtol=1e-4, atol=1e-6, err_msg=what)
