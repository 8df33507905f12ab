"""Autocorrelation by its definition, and relaxation times that go with λ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from turnout.workbench.diagnosis.findings.memory import autocorrelation, mixing
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.reading.log import Log

shapes = array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12)
logs = shapes.flatmap(lambda shape: st.tuples(arrays(bool, shape), arrays(bool, shape)))


@given(logs)
def test_autocorrelation_is_that_of_watched_pairs(pair):
    present, watched = pair[0] & pair[1], pair[1]
    lags = np.arange(present.shape[1] // 2 + 1)
    found = autocorrelation(present, watched, lags)
    for k in range(len(present)):
        own = present[k, watched[k]].astype(float)
        if len(own) == 0 or own.min() == own.max():
            assert np.isnan(found[k]).all()
            continue
        for place, lag in enumerate(lags):
            pairs = [(t, t + lag) for t in range(present.shape[1] - lag) if watched[k, t] and watched[k, t + lag]]
            products = [(present[k, a] - own.mean()) * (present[k, b] - own.mean()) for a, b in pairs]
            assert found[k, place] == pytest.approx(np.sum(products) / max(len(pairs), 1) / own.var(), abs=1e-6)


def test_curve_and_relaxation_of_chains(chains):
    pi, lam = np.full(80, 0.5), np.r_[np.full(79, 0.8), 0.98]
    log = Log.from_matrix(chains(0, pi, lam, 1500))
    found = mixing(log, rates(log))
    assert found.lags[:3].tolist() == [0, 1, 2]
    for lag in (1, 5, 10):
        assert found.curve[found.lags == lag] == pytest.approx(0.8**lag, abs=0.04)
        assert found.fleet_curve[found.lags == lag] == pytest.approx(0.8**lag, abs=0.2)
    assert found.slowest == 79
    assert found.relaxation[0] == pytest.approx(5, rel=0.3)
    assert found.relaxation[79] > 15
    assert np.mean((found.relaxation_low[:79] <= 5) & (found.relaxation_high[:79] >= 5)) >= 0.88
    assert ((found.relaxation_low <= found.relaxation) & (found.relaxation <= found.relaxation_high)).all()
    assert np.median(found.integrated) == pytest.approx(9, rel=0.1)
    assert found.sampled is None


def test_a_curve_of_nobody_is_unknown():
    log = Log.from_matrix(np.ones((3, 40), bool))
    found = mixing(log, rates(log))
    assert np.isnan(found.curve).all()
