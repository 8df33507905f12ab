"""Correlations by definition, and p-values of pairs that are as small as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.workbench.diagnosis.findings.cycles import Cycles
from turnout.workbench.diagnosis.findings.pairs import FALSE_LINK_RATE, Deviations, compare, correlations, false_rates
from turnout.workbench.diagnosis.reading.log import Log

NONE = Cycles(None, None, None)


@given(st.integers(2, 5), st.integers(3, 20), st.integers(0, 99))
def test_correlations_are_over_slots_watched_by_both(rows, slots, seed):
    draw = np.random.default_rng(seed)
    seen = draw.random((rows, slots)) < 0.7
    residual = np.where(seen, draw.normal(size=seen.shape), 0).astype(np.float32)
    found = correlations(Deviations(seen.astype(np.float32), np.zeros_like(residual), residual))
    for i in range(rows):
        for j in range(rows):
            both = seen[i] & seen[j]
            scale = np.sqrt((residual[i, both] ** 2).sum() * (residual[j, both] ** 2).sum())
            if i == j:
                assert found[i, j] == 0
            elif scale > 0.01:
                assert found[i, j] == pytest.approx((residual[i, both] * residual[j, both]).sum() / scale, abs=1e-3)


@pytest.mark.parametrize(("chance", "lam"), [(0.5, 0.0), (0.5, 0.95), (0.03, 0.5), (0.97, 0.5)])
def test_independent_clients_are_hardly_ever_linked(chains, chance, lam):
    linked = 0
    for seed in range(5):
        log = Log.from_matrix(chains(seed, np.full(40, chance), np.full(40, lam), 500))
        compared = compare(log, NONE, np.arange(40))
        linked += (false_rates(compared, correlations(compared)) <= FALSE_LINK_RATE).any()
    assert linked <= 1


def test_what_all_do_is_taken_off():
    """Clients that follow one common course are strangers once it is taken off."""
    draw = np.random.default_rng(0)
    common = 0.2 + 0.6 * draw.random(800)
    log = Log.from_matrix(draw.random((60, 800)) < common)
    compared = compare(log, NONE, np.arange(60))
    raw = np.corrcoef(log.matrix())[np.triu_indices(60, 1)].mean()
    assert raw > 0.08
    assert abs(correlations(compared)[np.triu_indices(60, 1)].mean()) < 0.03


def test_the_regression_is_a_chance():
    log = Log.from_matrix(np.random.default_rng(0).random((12, 50)) < 0.9)
    compared = compare(log, NONE, np.arange(12))
    assert ((compared.fitted >= 0) & (compared.fitted <= 1)).all()
    np.testing.assert_allclose(compared.fitted + compared.residual, log.matrix(), atol=1e-6)
