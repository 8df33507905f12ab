import jax.numpy as jnp
import numpy as np
import pytest

from turnout.tasks.base import target_mean, worst_decile

NAN = float("nan")


def test_target_mean_is_weighted_and_leaves_out_who_has_no_data():
    values, importance = jnp.array([1.0, NAN, 4.0]), jnp.array([1.0, 7.0, 2.0])
    assert target_mean(values, importance) == pytest.approx((1 + 8) / 3)
    assert np.isnan(target_mean(jnp.array([NAN]), jnp.array([1.0])))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (list(range(20)), 0.5),  # two of twenty
        ([*range(1, 12), NAN], 1.5),  # eleven have data: the tenth is rounded up to two
        ([3.0], 3.0),
        ([NAN, NAN], NAN),
    ],
)
def test_worst_decile_by_hand(values, expected):
    assert worst_decile(jnp.array(values, jnp.float32)) == pytest.approx(expected, nan_ok=True)
