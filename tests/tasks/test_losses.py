import jax
import jax.numpy as jnp
import numpy as np
import pytest

from turnout.tasks.models.model import LOSSES, cross_entropy, likeliest, log_quadratic, logistic, right_side, squared


def test_cross_entropy_of_two_classes_by_hand():
    outputs = jnp.log(jnp.array([[1.0, 3.0], [1.0, 1.0]]))  # odds 1:3 and 1:1
    losses = jax.jit(cross_entropy)(outputs, jnp.array([1, 0]))
    np.testing.assert_allclose(losses, [np.log(4 / 3), np.log(2)], rtol=1e-6)
    assert likeliest(outputs, jnp.array([1, 1])).tolist() == [1.0, 0.0]  # a tie goes to the first class


def test_cross_entropy_and_its_gradient_survive_huge_logits():
    loss = jax.jit(jax.value_and_grad(lambda outputs: cross_entropy(outputs, jnp.array([0]))[0]))
    value, gradient = loss(jnp.array([[-1e4, 1e4]]))
    assert value == pytest.approx(2e4)
    np.testing.assert_allclose(gradient, [[-1.0, 1.0]])


def test_logistic_is_cross_entropy_with_the_other_logit_at_zero():
    log_odds = jnp.array([[-2.0], [0.5], [3.0]])
    labels = jnp.array([0, 1, 0])
    both = jnp.concatenate([jnp.zeros_like(log_odds), log_odds], axis=1)
    expected = jax.jit(cross_entropy)(both, labels)
    np.testing.assert_allclose(jax.jit(logistic)(log_odds, labels), expected, rtol=1e-6)
    assert right_side(log_odds, labels).tolist() == [1.0, 1.0, 0.0]


def test_squared_is_halved():
    assert squared(jnp.array([[3.0]]), jnp.array([1.0])).tolist() == [2.0]


def test_log_quadratic_adds_the_label():
    # log(½ (2 + 2)² + 1) = log 9; with a minus sign it would be zero.
    assert log_quadratic(jnp.array([[2.0]]), jnp.array([2.0]))[0] == pytest.approx(np.log(9))


def test_regressions_have_nothing_right_or_wrong():
    assert {name for name, loss in LOSSES.items() if loss.correct is None} == {"squared", "log_quadratic"}
