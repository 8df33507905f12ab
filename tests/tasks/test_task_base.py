import jax.numpy as jnp
import numpy as np
import pytest

from turnout import tasks
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


def test_a_task_is_described_in_a_line():
    inputs, labels, clients = np.ones((3, 1), np.float32), np.array([0, 1, 0]), np.array(["a", "b", "b"])
    task = tasks.from_arrays((inputs, labels, clients), model=tasks.linear(1, 2), validation_share=0.5)
    assert repr(task) == "DataTask(2 clients, 2 samples to train, 1 samples to validate)"
    quadratics = tasks.quadratics(num_clients=1200, dimension=3)
    assert repr(quadratics) == "Quadratics(1,200 clients, 3 dimensions)"
    shared, own = quadratics.beside([quadratics, quadratics])
    assert (repr(shared), repr(own)) == ("Quadratics()", "Quadratics(1,200 clients, 3 dimensions)")
