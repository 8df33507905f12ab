import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.theory import chi_square_to_effective, kl_to_effective, total_variation

ALL = (total_variation, chi_square_to_effective, kl_to_effective)
weights = st.lists(st.floats(1e-6, 1e6), min_size=5, max_size=5)


def test_by_hand():
    target, effective = [1, 1], [3, 1]
    assert total_variation(target, effective) == pytest.approx(0.25)
    assert chi_square_to_effective(target, effective) == pytest.approx(1 / 16 / 0.75 + 1 / 16 / 0.25)
    assert chi_square_to_effective(effective, target) == pytest.approx(1 / 4)
    assert kl_to_effective(target, effective) == pytest.approx(0.5 * np.log(4 / 3))
    assert kl_to_effective(effective, target) == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))


@given(weights, weights, st.floats(1e-3, 1e3))
def test_distances_ignore_scale_and_obey_their_inequalities(target, effective, scale):
    for distance in ALL:
        found = distance(target, effective)
        assert found >= 0
        assert distance(target, list(scale * np.array(effective))) == pytest.approx(found, rel=1e-6, abs=1e-12)
        assert distance(target, target) == pytest.approx(0, abs=1e-15)
    kl, chi, tv = (f(target, effective) for f in (kl_to_effective, chi_square_to_effective, total_variation))
    assert 2 * tv**2 <= kl + 1e-12  # Pinsker
    assert kl <= np.log1p(chi) + 1e-12


def test_missing_support_is_infinite_in_one_order_only():
    target, effective = [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]
    assert chi_square_to_effective(target, effective) == kl_to_effective(target, effective) == np.inf
    assert chi_square_to_effective(effective, target) == pytest.approx(1.0)
    assert kl_to_effective(effective, target) == pytest.approx(np.log(2))
    assert total_variation(target, effective) == 0.5


@pytest.mark.parametrize("distance", ALL)
@pytest.mark.parametrize(
    ("target", "effective", "message"),
    [
        ([1, 1], [1, 1, 1], "effective has 3 values for 2 clients"),
        ([1, -1], [1, 1], "client 1 has target = -1: must not be negative"),
        ([0, 0], [1, 1], "target: all values are 0"),
        ([1, 1], [1, np.nan], "effective.* must be a finite number, not nan"),
        ([], [], "target has shape"),
    ],
)
def test_refuses(distance, target, effective, message):
    with pytest.raises(ValueError, match=message):
        distance(target, effective)
