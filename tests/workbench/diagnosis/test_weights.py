"""Effective weights by hand, slot by slot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from turnout.workbench.diagnosis.findings.fedavg_weights import mean_shares, target_of, weights
from turnout.workbench.diagnosis.reading.log import Log

tables = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


@given(tables, st.integers(0, 9))
def test_received_is_the_mean_share_over_slots_with_somebody(present, seed):
    weight = np.random.default_rng(seed).uniform(0.1, 2, len(present))
    total = weight @ present
    shares = [weight * present[:, t] / total[t] for t in range(present.shape[1]) if total[t] > 0]
    expected = np.mean(shares, axis=0) if shares else np.zeros(len(present))
    np.testing.assert_allclose(mean_shares(Log.from_matrix(present), weight), expected, atol=1e-12)


def test_weights_of_a_small_log():
    present = np.array([[1, 1, 0, 0], [0, 1, 0, 1]], bool)
    found = weights(Log.from_matrix(present, sizes=np.array([30.0, 10.0])))
    assert found.target.tolist() == [0.75, 0.25]
    assert found.plain == pytest.approx([0.5, 0.5])
    assert found.weighted == pytest.approx([(1 + 0.75) / 3, (0.25 + 1) / 3])
    assert found.plain_distance == pytest.approx(0.25)
    assert found.weighted_distance == pytest.approx(0.75 - 1.75 / 3)
    assert found.empty_slots == 1
    assert sorted(found.ranked.tolist()) == [0, 1]


def test_a_missing_size_is_the_mean():
    log = Log.from_matrix(np.ones((3, 2), bool), sizes=np.array([1.0, np.nan, 3.0]))
    assert target_of(log) == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_tiny_weights_keep_their_share():
    """Sums of a sweep must not lose a small client beside large ones that left."""
    present = np.array([[1, 1, 0], [0, 0, 1]], bool)
    assert mean_shares(Log.from_matrix(present), np.array([1.0, 1e-9])) == pytest.approx([2 / 3, 1 / 3], rel=1e-5)
